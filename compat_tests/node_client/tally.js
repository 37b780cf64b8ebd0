'use strict';

/** Which numbers of a run were seen, and how often. Nothing but the run's name and a number determines a message. */
class Tally {
  constructor(run) {
    this.run = run;
    this.seen = new Set();
    this.duplicates = 0;
    this.strangers = 0;
    this.corrupt = 0;
    this.waited = [];
    this.errors = {};
    this.changedMs = Date.now();
  }

  static body(run, number, size) {
    let text = `${run}-${number}|`;
    while (text.length < size) {
      text += String.fromCharCode(97 + text.length % 26);
    }
    return text;
  }

  numberOf(message) {
    const [run, number] = String(message.keys || '').split('-');
    return run === this.run ? Number(number) : -1;
  }

  add(number) {
    this.changedMs = Date.now();
    if (this.seen.has(number)) {
      this.duplicates += 1;
    }
    this.seen.add(number);
  }

  /** Counts a message after comparing its body. */
  received(message) {
    const number = this.numberOf(message);
    if (number < 0) {
      this.strangers += 1;
      return;
    }
    if (message.body.toString() !== Tally.body(this.run, number, message.body.length)) {
      this.corrupt += 1;
    }
    this.waited.push(message.storeTimestamp - message.bornTimestamp);
    this.add(number);
  }

  error(error) {
    this.errors[error.message] = (this.errors[error.message] || 0) + 1;
  }

  get distinct() {
    return this.seen.size;
  }

  answer(name) {
    const bits = Buffer.alloc(Math.floor(Math.max(0, ...this.seen) / 8) + 1);
    for (const number of this.seen) {
      bits[number >> 3] |= 1 << (number & 7);
    }
    const waited = this.waited.length
      ? { waited_min_ms: Math.min(...this.waited), waited_max_ms: Math.max(...this.waited) }
      : {};
    return {
      [name]: this.seen.size,
      duplicates: this.duplicates,
      strangers: this.strangers,
      corrupt: this.corrupt,
      numbers: this.seen.size ? bits.toString('hex') : '',
      errors: this.errors,
      resent: 0,
      ...waited,
    };
  }
}

module.exports = Tally;
