//go:build !newer

package main

import (
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// Of the newest release, which has no TLS.
const undecided = primitive.UnknowState

func producerOf(o options) []producer.Option { return nil }

func consumerOf(o options) []consumer.Option { return nil }
