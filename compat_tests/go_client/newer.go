//go:build newer

package main

import (
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// Of newer.mod, which is not released.
const undecided = primitive.UnkonwnState

func producerOf(o options) []producer.Option {
	return []producer.Option{producer.WithTls(o.has("tls"))}
}

func consumerOf(o options) []consumer.Option {
	return []consumer.Option{consumer.WithTls(o.has("tls"))}
}
