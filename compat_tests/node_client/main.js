'use strict';

// The stock Node client under remote control: `main.js listen PORT` answers requests on a TCP port, a line each, as the
// Java program does (compat_tests/java_client, which describes verbs, options and answers). Only what ali-ons can say is here.

const net = require('net');
const readline = require('readline');
const { Consumer, Producer, Message } = require('ali-ons');
const Tally = require('./tally');

const stopped = new Set();
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));
let instances = 0;

class Options {
  constructor(words) {
    this.values = new Map(words.map(word => {
      const at = word.indexOf('=');
      return [word.slice(0, at), decodeURIComponent(word.slice(at + 1))];
    }));
    this.endMs = Date.now() + this.number('timeout_s', 60) * 1000;
  }

  has(key) {
    return this.values.has(key);
  }

  text(key, otherwise) {
    if (!this.has(key) && otherwise === undefined) {
      throw new Error(`${key}= is missing`);
    }
    return this.has(key) ? this.values.get(key) : otherwise;
  }

  number(key, otherwise) {
    return this.has(key) ? Number(this.values.get(key)) : otherwise;
  }

  get ended() {
    return Date.now() > this.endMs || this.has('until') && stopped.has(this.text('until'));
  }
}

function settings(o) {
  instances += 1;
  return {
    // Asked for addresses only where none is given.
    httpclient: { request: () => { throw new Error('not to be asked'); } },
    nameSrv: [o.text('ns')],
    namespace: o.text('namespace', ''),
    ...(o.has('access_key') && { accessKey: o.text('access_key'), secretKey: o.text('secret_key') }),
    instanceName: `compat@${process.pid}@${instances}`,
    pollNameServerInteval: 1000,
    heartbeatBrokerInterval: 1000,
    persistConsumerOffsetInterval: 500,
    rebalanceInterval: 1000,
    logger: { info() {}, debug() {}, warn() {}, error() {} },
  };
}

function message(o, number) {
  const run = o.text('run');
  const made = new Message(o.text('topic'), '', Tally.body(run, number, o.number('size', 100)));
  made.keys = [`${run}-${number}`];
  if (o.has('tags')) {
    const tags = o.text('tags').split(',');
    made.tags = tags[number % tags.length];
  }
  if (o.has('delay')) {
    made.delayTimeLevel = o.number('delay');
  }
  if (o.has('property')) {
    made.properties[o.text('property')] = String(number);
  }
  return made;
}

async function send(o, answer, threads) {
  const producer = new Producer({ ...settings(o), producerGroup: `p_${o.text('run')}`, sendMsgTimeout: 10000 });
  producer.on('error', () => {});
  await producer.ready();
  const tally = new Tally(o.text('run'));
  const first = o.number('first', 0);
  const last = first + o.number('count');
  const ids = [];
  const counts = { started: 0, failed: 0, not_ok: 0 };
  let next = first;
  const sender = async () => {
    while (next < last && !o.ended) {
      const number = next++;
      counts.started += 1;
      try {
        const result = await producer.send(message(o, number));
        if (result.sendStatus === 'SEND_OK') {
          tally.add(number);
          ids.push(`${result.msgId}/${result.msgId}/${o.text('run')}-${number}`);
        } else {
          counts.not_ok += 1;
        }
      } catch (error) {
        counts.failed += 1;
        tally.error(error);
      }
      await sleep(o.number('pause_ms', 0));
    }
  };
  await Promise.all(Array.from({ length: threads }, sender));
  await producer.close();
  Object.assign(answer, tally.answer('acknowledged'), counts, { unanswered: 0, ids: ids.slice(0, 20) });
}

async function started(o, listener, more) {
  const consumer = new Consumer({
    ...settings(o),
    consumerGroup: o.text('group'),
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    parallelConsumeLimit: 8,
    ...more,
  });
  consumer.on('error', () => {});
  const filter = o.has('sql') ? { expressionType: 'SQL92', subString: o.text('sql') } : o.text('tags', '*');
  consumer.subscribe(o.text('topic'), filter, listener);
  await consumer.ready();
  return consumer;
}

/** Until count is reached and lingered, told to stop, idle for idle_s, or out of time. */
async function finished(o, ...tallies) {
  const begunMs = Date.now();
  let enoughMs = 0;
  while (!o.ended) {
    const all = o.has('count') && tallies.every(
      tally => tally.distinct >= o.number('count') && tally.distinct + tally.duplicates >= o.number('deliveries', 0));
    const changedMs = Math.max(begunMs, ...tallies.map(tally => tally.changedMs));
    if (!all && o.has('count') && Date.now() - changedMs > o.number('idle_s', 60) * 1000) {
      return;
    }
    if (!all) {
      enoughMs = 0;
    } else if (!enoughMs) {
      enoughMs = Date.now();
    } else if (Date.now() - enoughMs > o.number('linger_ms', 1000)) {
      return;
    }
    await sleep(20);
  }
}

async function consume(o, answer) {
  const tally = new Tally(o.text('run'));
  const consumer = await started(o, async received => { tally.received(received); });
  await finished(o, tally);
  await consumer.close();
  Object.assign(answer, tally.answer('received'));
}

async function broadcast(o, answer) {
  const tallies = [];
  const consumers = [];
  for (let member = 0; member < o.number('members', 2); member++) {
    const tally = new Tally(o.text('run'));
    tallies.push(tally);
    consumers.push(await started(o, async received => { tally.received(received); }, { isBroadcast: true }));
  }
  await finished(o, ...tallies);
  await Promise.all(consumers.map(consumer => consumer.close()));
  const worst = tallies.reduce((a, b) => (b.distinct < a.distinct ? b : a));
  const total = tallies.reduce((sum, tally) => sum + tally.distinct + tally.duplicates, 0);
  Object.assign(answer, worst.answer('received'), { total });
}

async function failing(o, answer) {
  const count = o.number('count');
  const most = o.number('max_reconsume', 2);
  const isHopeless = number => o.number('hopeless', 10) > 0 && number % o.number('hopeless', 10) === 0;
  const tally = new Tally(o.text('run'));
  const deliveries = new Array(count).fill(0);
  let wrong = 0;
  const consumer = await started(o, async received => {
    const number = tally.numberOf(received);
    const before = deliveries[number]++;
    wrong += received.reconsumeTimes === before ? 0 : 1;
    if (isHopeless(number) || before < 1) {
      throw new Error('fails on purpose');
    }
    tally.received(received);
  }, { maxReconsumeTimes: most });
  let want = 2 * count;
  for (let number = 0; number < count; number++) {
    want += isHopeless(number) ? most - 1 : 0;
  }
  while (!o.ended && deliveries.reduce((a, b) => a + b, 0) < want) {
    await sleep(50);
  }
  await sleep(1500);
  await consumer.close();
  const attempts = {};
  const hopeless = {};
  deliveries.forEach((times, number) => {
    const counts = isHopeless(number) ? hopeless : attempts;
    counts[times] = (counts[times] || 0) + 1;
  });
  Object.assign(answer, tally.answer('received'), { wrong_counts: wrong, attempts, hopeless_attempts: hopeless });
}

const VERBS = {
  stop: async o => { stopped.add(o.text('name')); },
  'send-sync': (o, answer) => send(o, answer, o.number('threads', 8)),
  'send-async': (o, answer) => send(o, answer, o.number('count')),
  'consume-push': consume,
  'consume-broadcast': broadcast,
  'consume-failing': failing,
};

async function respond(line) {
  const [verb, ...words] = line.trim().split(/ +/);
  const answer = { verb, ok: true };
  try {
    if (!VERBS[verb]) {
      throw new Error(`unknown verb ${verb}`);
    }
    await VERBS[verb](new Options(words), answer);
  } catch (error) {
    Object.assign(answer, { ok: false, error: error.stack });
  }
  return `${JSON.stringify(answer)}\n`;
}

const [word, port] = process.argv.slice(2);
if (word !== 'listen') {
  console.error('usage: listen PORT');
  process.exit(2);
}
// The client leaves some promises without anyone who listens; a test asks about messages, not about those.
process.on('unhandledRejection', error => console.error(error));
net.createServer(socket => {
  socket.on('error', () => {});
  readline.createInterface({ input: socket }).on('line', async line => socket.write(await respond(line)));
}).listen(Number(port), () => console.log('ready'));
