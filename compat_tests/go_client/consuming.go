package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

func init() {
	verbs["consume-push"] = concurrently
	verbs["consume-orderly"] = orderly
	verbs["consume-broadcast"] = broadcast
	verbs["consume-failing"] = failing
	verbs["consume-pull"] = poll
	verbs["request"] = request
}

type listener func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

func consumerOptions(o options, group string) []consumer.Option {
	made := []consumer.Option{
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{o.text("ns")})),
		consumer.WithGroupName(group),
		consumer.WithInstance(fmt.Sprintf("%s@%d", group, time.Now().UnixNano())),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}
	if o.has("namespace") {
		made = append(made, consumer.WithNamespace(o.text("namespace")))
	}
	if o.has("access_key") {
		made = append(made, consumer.WithCredentials(credentials(o)))
	}
	return append(made, consumerOf(o)...)
}

func selector(o options) consumer.MessageSelector {
	if o.has("sql") {
		return consumer.MessageSelector{Type: consumer.SQL92, Expression: o.text("sql")}
	}
	tags := "*"
	if o.has("tags") {
		tags = o.text("tags")
	}
	return consumer.MessageSelector{Type: consumer.TAG, Expression: tags}
}

func started(o options, group string, consume listener, more ...consumer.Option) (rocketmq.PushConsumer, error) {
	c, err := rocketmq.NewPushConsumer(append(consumerOptions(o, group), more...)...)
	if err != nil {
		return nil, err
	}
	if err = c.Subscribe(o.text("topic"), selector(o), consume); err != nil {
		return nil, err
	}
	return c, c.Start()
}

// await waits for the end of a verb: count reached and lingered, told to stop, idle for idle_s, or out of time.
func await(o options, end time.Time, tallies ...*tally) {
	var enough time.Time
	idle := time.Duration(o.number("idle_s", 60)) * time.Second
	linger := time.Duration(o.number("linger_ms", 1000)) * time.Millisecond
	begun := time.Now()
	for !o.ended(end) {
		all := o.has("count")
		changed := begun
		for _, t := range tallies {
			all = all && t.distinct() >= o.number("count", 0) && t.total() >= o.number("deliveries", 0)
			t.Lock()
			if t.changed.After(changed) {
				changed = t.changed
			}
			t.Unlock()
		}
		if !all && o.has("count") && time.Since(changed) > idle {
			return
		}
		if !all {
			enough = time.Time{}
		} else if enough.IsZero() {
			enough = time.Now()
		} else if time.Since(enough) > linger {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func concurrently(o options, a answer) error {
	t := newTally(o.text("run"))
	c, err := started(o, o.text("group"), func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range messages {
			t.received(m)
		}
		return consumer.ConsumeSuccess, nil
	})
	if err != nil {
		return err
	}
	await(o, o.end(), t)
	t.into(a, "received")
	return c.Shutdown()
}

func orderly(o options, a answer) error {
	t := newTally(o.text("run"))
	shards := o.number("shards", 16)
	var lock sync.Mutex
	newest, suspended, breaks := map[int]int{}, map[int]bool{}, 0
	consume := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		lock.Lock()
		defer lock.Unlock()
		for _, m := range messages {
			number := t.numberOf(&m.Message)
			if o.has("suspend") && number%o.number("suspend", 1) == 0 && !suspended[number] {
				suspended[number] = true
				return consumer.SuspendCurrentQueueAMoment, nil
			}
			t.received(m)
			if before, known := newest[number%shards]; known && before > number {
				breaks++
			}
			newest[number%shards] = number
		}
		return consumer.ConsumeSuccess, nil
	}
	c, err := started(o, o.text("group"), consume, consumer.WithConsumerOrder(true),
		consumer.WithSuspendCurrentQueueTimeMillis(100*time.Millisecond))
	if err != nil {
		return err
	}
	await(o, o.end(), t)
	t.into(a, "received")
	a["order_breaks"], a["suspended"] = breaks, len(suspended)
	return c.Shutdown()
}

func broadcast(o options, a answer) error {
	var tallies []*tally
	var consumers []rocketmq.PushConsumer
	for member := 0; member < o.number("members", 2); member++ {
		t := newTally(o.text("run"))
		c, err := started(o, o.text("group"), func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, m := range messages {
				t.received(m)
			}
			return consumer.ConsumeSuccess, nil
		}, consumer.WithConsumerModel(consumer.BroadCasting))
		if err != nil {
			return err
		}
		tallies, consumers = append(tallies, t), append(consumers, c)
	}
	await(o, o.end(), tallies...)
	worst, total := tallies[0], 0
	for _, t := range tallies {
		if t.distinct() < worst.distinct() {
			worst = t
		}
		total += t.total()
	}
	worst.into(a, "received")
	a["total"] = total
	for _, c := range consumers {
		if err := c.Shutdown(); err != nil {
			return err
		}
	}
	return nil
}

func failing(o options, a answer) error {
	count, hopeless, most := o.number("count", 0), o.number("hopeless", 10), o.number("max_reconsume", 2)
	isHopeless := func(number int) bool { return hopeless > 0 && number%hopeless == 0 }
	t := newTally(o.text("run"))
	deliveries := make([]int32, count)
	var wrong, total int32
	consume := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		m := messages[0]
		number := t.numberOf(&m.Message)
		before := atomic.AddInt32(&deliveries[number], 1) - 1
		atomic.AddInt32(&total, 1)
		if m.ReconsumeTimes != before {
			atomic.AddInt32(&wrong, 1)
		}
		if isHopeless(number) || before < 1 {
			return consumer.ConsumeRetryLater, nil
		}
		t.received(m)
		return consumer.ConsumeSuccess, nil
	}
	c, err := started(o, o.text("group"), consume, consumer.WithMaxReconsumeTimes(int32(most)))
	if err != nil {
		return err
	}
	want := int32(2 * count)
	for number := 0; number < count; number++ {
		if isHopeless(number) {
			want += int32(most - 1)
		}
	}
	for end := o.end(); !o.ended(end) && atomic.LoadInt32(&total) < want; {
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(1500 * time.Millisecond)
	curable, others := map[string]int{}, map[string]int{}
	for number := range deliveries {
		times := strconv.Itoa(int(atomic.LoadInt32(&deliveries[number])))
		if isHopeless(number) {
			others[times]++
		} else {
			curable[times]++
		}
	}
	t.into(a, "received")
	a["wrong_counts"], a["deliveries"], a["attempts"], a["hopeless_attempts"] = wrong, total, curable, others
	return c.Shutdown()
}

func poll(o options, a answer) error {
	t := newTally(o.text("run"))
	c, err := rocketmq.NewPullConsumer(consumerOptions(o, o.text("group"))...)
	if err != nil {
		return err
	}
	if err = c.Subscribe(o.text("topic"), selector(o)); err != nil {
		return err
	}
	if err = c.Start(); err != nil {
		return err
	}
	over := make(chan struct{})
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		for {
			select {
			case <-over:
				return
			default:
			}
			batch, err := c.Poll(context.Background(), 200*time.Millisecond)
			if err != nil {
				if !consumer.IsNoNewMsgError(err) {
					t.failed(err)
					time.Sleep(100 * time.Millisecond)
				}
				continue
			}
			for _, m := range batch.GetMsgList() {
				t.received(m)
			}
			c.ACK(context.Background(), batch, consumer.ConsumeSuccess)
		}
	}()
	await(o, o.end(), t)
	close(over)
	<-polled
	t.into(a, "received")
	return c.Shutdown()
}

func request(o options, a answer) error {
	group := o.text("group")
	replier, err := rocketmq.NewProducer(producerOptions(o, group+"_replier")...)
	if err != nil {
		return err
	}
	if err = replier.Start(); err != nil {
		return err
	}
	var refused, replied, wrong, timedOut int32
	c, err := started(o, group, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range messages {
			reply, err := consumer.CreateReplyMessage(m, nil)
			if err != nil {
				return consumer.ConsumeSuccess, err
			}
			reply.Body = []byte("reply to " + string(m.Body)) // 2.1.2 takes a body that it is given for properties
			// Its requester's first heartbeat comes a while after its first request: until then nobody is to be replied to.
			for tries := 0; tries < 40; tries++ {
				if _, err = replier.SendSync(context.Background(), reply); err == nil {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			if err != nil {
				atomic.AddInt32(&refused, 1)
			}
		}
		return consumer.ConsumeSuccess, nil
	})
	if err != nil {
		return err
	}
	requester, err := rocketmq.NewProducer(producerOptions(o, group+"_requester")...)
	if err != nil {
		return err
	}
	if err = requester.Start(); err != nil {
		return err
	}
	var workers sync.WaitGroup
	threads := o.number("threads", 8)
	for thread := 0; thread < threads; thread++ {
		workers.Add(1)
		go func(mine int) {
			defer workers.Done()
			for number := mine; number < o.number("count", 0); number += threads {
				text := fmt.Sprintf("question %d", number)
				reply, err := requester.Request(context.Background(), 10*time.Second, primitive.NewMessage(o.text("topic"), []byte(text)))
				if err != nil {
					atomic.AddInt32(&timedOut, 1)
				} else if string(reply.Body) == "reply to "+text {
					atomic.AddInt32(&replied, 1)
				} else {
					atomic.AddInt32(&wrong, 1)
				}
			}
		}(thread)
	}
	workers.Wait()
	a["replied"], a["wrong"], a["timed_out"], a["failed"], a["refused"] = replied, wrong, timedOut, 0, refused
	if err = requester.Shutdown(); err != nil {
		return err
	}
	if err = c.Shutdown(); err != nil {
		return err
	}
	return replier.Shutdown()
}
