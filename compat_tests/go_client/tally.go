package main

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// A tally notes which numbers of a run were seen, and how often. Nothing but the run's name and a number determines a message.
type tally struct {
	sync.Mutex
	run                                    string
	seen                                   map[int]bool
	duplicates, strangers, corrupt, waited int
	waitedMin, waitedMax                   int64
	errors                                 map[string]int
	changed                                time.Time
}

func newTally(run string) *tally {
	return &tally{run: run, seen: map[int]bool{}, errors: map[string]int{}, changed: time.Now()}
}

func body(run string, number, size int) []byte {
	text := []byte(fmt.Sprintf("%s-%d|", run, number))
	for len(text) < size {
		text = append(text, byte('a'+len(text)%26))
	}
	return text
}

func message(o options, number int) *primitive.Message {
	run := o.text("run")
	made := primitive.NewMessage(o.text("topic"), body(run, number, o.number("size", 100)))
	made.WithKeys([]string{fmt.Sprintf("%s-%d", run, number)})
	if o.has("tags") {
		tags := strings.Split(o.text("tags"), ",")
		made.WithTag(tags[number%len(tags)])
	}
	if o.has("delay") {
		made.WithDelayTimeLevel(o.number("delay", 0))
	}
	if o.has("property") {
		made.WithProperty(o.text("property"), strconv.Itoa(number))
	}
	return made
}

func (t *tally) numberOf(m *primitive.Message) int {
	key := strings.TrimSpace(m.GetKeys())
	if !strings.HasPrefix(key, t.run+"-") {
		return -1
	}
	number, err := strconv.Atoi(key[len(t.run)+1:])
	if err != nil {
		return -1
	}
	return number
}

func (t *tally) add(number int) {
	t.Lock()
	defer t.Unlock()
	t.changed = time.Now()
	if t.seen[number] {
		t.duplicates++
	}
	t.seen[number] = true
}

// received counts a message after comparing its body.
func (t *tally) received(m *primitive.MessageExt) int {
	number := t.numberOf(&m.Message)
	if number < 0 {
		t.Lock()
		t.strangers++
		t.Unlock()
		return number
	}
	waited := m.StoreTimestamp - m.BornTimestamp
	t.Lock()
	if string(body(t.run, number, len(m.Body))) != string(m.Body) {
		t.corrupt++
	}
	if t.waited == 0 || waited < t.waitedMin {
		t.waitedMin = waited
	}
	if t.waited == 0 || waited > t.waitedMax {
		t.waitedMax = waited
	}
	t.waited++
	t.Unlock()
	t.add(number)
	return number
}

func (t *tally) failed(err error) {
	t.Lock()
	defer t.Unlock()
	t.errors[err.Error()]++
}

func (t *tally) distinct() int {
	t.Lock()
	defer t.Unlock()
	return len(t.seen)
}

func (t *tally) total() int {
	t.Lock()
	defer t.Unlock()
	return len(t.seen) + t.duplicates
}

func (t *tally) has(number int) bool {
	t.Lock()
	defer t.Unlock()
	return t.seen[number]
}

func (t *tally) into(a answer, name string) {
	t.Lock()
	defer t.Unlock()
	a[name], a["duplicates"], a["strangers"], a["corrupt"] = len(t.seen), t.duplicates, t.strangers, t.corrupt
	a["numbers"], a["errors"], a["resent"] = bits(t.seen), t.errors, 0
	if t.waited > 0 {
		a["waited_min_ms"], a["waited_max_ms"] = t.waitedMin, t.waitedMax
	}
}

// bits are bit n of little-endian bytes, as hex.
func bits(numbers map[int]bool) string {
	var set []byte
	for number := range numbers {
		for len(set) <= number/8 {
			set = append(set, 0)
		}
		set[number/8] |= 1 << (number % 8)
	}
	return hex.EncodeToString(set)
}
