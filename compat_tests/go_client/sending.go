package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const sendTimeout = 10 * time.Second

func init() {
	verbs["send-sync"] = func(o options, a answer) error { return send(o, a, 1, sendSync) }
	verbs["send-batch"] = func(o options, a answer) error { return send(o, a, o.number("batch", 20), sendSync) }
	verbs["send-orderly"] = func(o options, a answer) error { return send(o, a, 1, sendSync) }
	verbs["send-async"] = func(o options, a answer) error { return send(o, a, 1, sendAsync) }
	verbs["send-oneway"] = func(o options, a answer) error { return send(o, a, 1, sendOneWay) }
	verbs["transact"] = transact
}

type outcome struct {
	*tally
	failures, notOk, started int32
	ids                      []string
	inFlight                 sync.WaitGroup
}

func (out *outcome) answered(result *primitive.SendResult, err error, messages []*primitive.Message) {
	if err != nil {
		atomic.AddInt32(&out.failures, 1)
		out.failed(err)
		return
	}
	if result.Status != primitive.SendOK {
		atomic.AddInt32(&out.notOk, 1)
		return
	}
	for _, m := range messages {
		out.add(out.numberOf(m))
	}
	out.Lock()
	if len(out.ids) < 20 {
		out.ids = append(out.ids, result.OffsetMsgID+"/"+result.MsgID+"/"+messages[0].GetKeys())
	}
	out.Unlock()
}

func sendSync(p rocketmq.Producer, out *outcome, messages []*primitive.Message) {
	result, err := p.SendSync(context.Background(), messages...)
	out.answered(result, err, messages)
}

func sendAsync(p rocketmq.Producer, out *outcome, messages []*primitive.Message) {
	out.inFlight.Add(1)
	err := p.SendAsync(context.Background(), func(_ context.Context, result *primitive.SendResult, err error) {
		out.answered(result, err, messages)
		out.inFlight.Done()
	}, messages...)
	if err != nil {
		out.answered(nil, err, messages)
		out.inFlight.Done()
	}
}

func sendOneWay(p rocketmq.Producer, out *outcome, messages []*primitive.Message) {
	if err := p.SendOneWay(context.Background(), messages...); err != nil {
		out.answered(nil, err, messages)
	}
}

func credentials(o options) primitive.Credentials {
	return primitive.Credentials{AccessKey: o.text("access_key"), SecretKey: o.text("secret_key")}
}

func producerOptions(o options, group string) []producer.Option {
	resolver := primitive.NewPassthroughResolver([]string{o.text("ns")})
	made := []producer.Option{
		producer.WithNsResolver(resolver),
		producer.WithGroupName(group),
		producer.WithInstanceName(fmt.Sprintf("%s@%d", group, time.Now().UnixNano())),
		producer.WithSendMsgTimeout(sendTimeout),
		producer.WithRetry(2),
	}
	if o.has("namespace") {
		made = append(made, producer.WithNamespace(o.text("namespace")))
	}
	if o.has("access_key") {
		made = append(made, producer.WithCredentials(credentials(o)))
	}
	if o.has("trace") {
		traced := &primitive.TraceConfig{Access: primitive.Local, Resolver: resolver}
		if o.has("access_key") {
			traced.Credentials = credentials(o)
		}
		made = append(made, producer.WithTrace(traced))
	}
	if o.has("shards") {
		made = append(made, producer.WithQueueSelector(producer.NewHashQueueSelector()))
	}
	return append(made, producerOf(o)...)
}

func send(o options, a answer, group int, step func(rocketmq.Producer, *outcome, []*primitive.Message)) error {
	p, err := rocketmq.NewProducer(producerOptions(o, "p_"+o.text("run"))...)
	if err != nil {
		return err
	}
	if err = p.Start(); err != nil {
		return err
	}
	out := &outcome{tally: newTally(o.text("run")), ids: []string{}}
	first, threads := o.number("first", 0), o.number("threads", 8)
	last := first + o.number("count", 0)
	end := o.end()
	var workers sync.WaitGroup
	for thread := 0; thread < threads; thread++ {
		workers.Add(1)
		go func(mine int) {
			defer workers.Done()
			// Numbers are dealt out in turn: with threads = shards each shard keeps one thread.
			for n := mine; n < last && !o.ended(end); n += threads * group {
				messages := []*primitive.Message{}
				for number := n; number < n+group && number < last; number++ {
					m := message(o, number)
					if o.has("shards") {
						m.WithShardingKey(fmt.Sprint(number % o.number("shards", 1)))
					}
					messages = append(messages, m)
				}
				atomic.AddInt32(&out.started, int32(len(messages)))
				step(p, out, messages)
				time.Sleep(time.Duration(o.number("pause_ms", 0)) * time.Millisecond)
			}
		}(first + thread*group)
	}
	workers.Wait()
	out.inFlight.Wait()
	time.Sleep(time.Duration(o.number("linger_ms", 300)) * time.Millisecond)
	if err = p.Shutdown(); err != nil {
		return err
	}
	out.into(a, "acknowledged")
	a["started"], a["failed"], a["not_ok"], a["unanswered"], a["ids"] = out.started, out.failures, out.notOk, 0, out.ids
	return nil
}

// decider decides by number alone, as the Java program does: n % 3 = 0 commit, 1 roll back, 2 let the check decide.
type decider struct {
	checked *tally
	unknown sync.Map
}

func commits(number int) bool {
	return number%3 == 0 || number%3 == 2 && number/3%2 == 0
}

func decision(number int) primitive.LocalTransactionState {
	if commits(number) {
		return primitive.CommitMessageState
	}
	return primitive.RollbackMessageState
}

func (d *decider) ExecuteLocalTransaction(m *primitive.Message) primitive.LocalTransactionState {
	number := d.checked.numberOf(m)
	if number%3 == 2 {
		d.unknown.Store(number, true)
		return undecided
	}
	return decision(number)
}

func (d *decider) CheckLocalTransaction(m *primitive.MessageExt) primitive.LocalTransactionState {
	return decision(d.checked.received(m))
}

func (d *decider) left() (unknown map[int]bool, unchecked int) {
	unknown = map[int]bool{}
	d.unknown.Range(func(number, _ interface{}) bool {
		unknown[number.(int)] = true
		if !d.checked.has(number.(int)) {
			unchecked++
		}
		return true
	})
	return unknown, unchecked
}

func transact(o options, a answer) error {
	run := o.text("run")
	decides := &decider{checked: newTally(run)}
	p, err := rocketmq.NewTransactionProducer(decides, producerOptions(o, o.text("group"))...)
	if err != nil {
		return err
	}
	if err = p.Start(); err != nil {
		return err
	}
	acknowledged := newTally(run)
	failed := 0
	for number := 0; number < o.number("count", 0); number++ {
		result, err := p.SendMessageInTransaction(context.Background(), message(o, number))
		if err != nil {
			failed++
			acknowledged.failed(err)
		} else if result.Status == primitive.SendOK {
			acknowledged.add(number)
		}
	}
	end := time.Now().Add(time.Duration(o.number("wait_checks_s", 30)) * time.Second)
	unknown, unchecked := decides.left()
	for unchecked > 0 && time.Now().Before(end) {
		time.Sleep(50 * time.Millisecond)
		unknown, unchecked = decides.left()
	}
	time.Sleep(300 * time.Millisecond) // the answers to the last checks are one-way: let them leave
	if err = p.Shutdown(); err != nil {
		return err
	}
	committed, rolledBack := map[int]bool{}, map[int]bool{}
	for number := range acknowledged.seen {
		if commits(number) {
			committed[number] = true
		} else {
			rolledBack[number] = true
		}
	}
	acknowledged.into(a, "acknowledged")
	a["failed"], a["committed"], a["rolled_back"], a["unknown"] = failed, bits(committed), bits(rolledBack), bits(unknown)
	a["checked"], a["checks"] = bits(decides.checked.seen), decides.checked.total()
	return nil
}
