package main

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"interop/checks"
)

const (
	storm  = "amqp091-storm"
	window = 50
	enough = 1000
)

// killed: the server dies while messages are published as fast as they are confirmed. What the
// client was told is confirmed is there afterwards.
func killed() (any, error) {
	connection, err := amqp.DialConfig(url("guest"), amqp.Config{
		Recovery: &amqp.Recovery{
			ReconnectionConfig: &amqp.ReconnectionConfig{
				MaxRetryCount: 200, RetryInterval: 200 * time.Millisecond,
			},
		},
	})
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		return nil, err
	}
	if _, err := channel.QueueDeclare(storm, true, false, false, false, nil); err != nil {
		return nil, err
	}
	if err := channel.Confirm(false); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*checks.Patience)
	defer cancel()
	publishing, stop := context.WithCancel(ctx)
	defer stop()
	var count atomic.Int64
	confirmed := map[string]bool{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for number := 0; publishing.Err() == nil; {
			pending := map[string]*amqp.DeferredConfirmation{}
			for range window {
				body := strconv.Itoa(number)
				number++
				one, err := channel.PublishWithDeferredConfirmWithContext(publishing, "", storm, false,
					false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)})
				if err != nil { // not connected now
					time.Sleep(20 * time.Millisecond)
					break
				}
				pending[body] = one
			}
			// those of a connection that was lost wait for ever in this client
			waiting, enough := context.WithTimeout(ctx, 5*time.Second)
			for body, one := range pending {
				if acked, err := one.WaitContext(waiting); err == nil && acked {
					confirmed[body] = true
					count.Add(1)
				}
			}
			enough()
		}
	}()
	reach := func(wanted int64) error {
		for count.Load() < wanted {
			if ctx.Err() != nil {
				return errors.New("too few were confirmed")
			}
			time.Sleep(10 * time.Millisecond)
		}
		return nil
	}
	if err := reach(enough); err != nil {
		return nil, err
	}
	if err := checks.Restart(); err != nil {
		return nil, err
	}
	if err := reach(count.Load() + enough); err != nil {
		return nil, err
	}
	stop()
	<-done
	lost, twice, err := missing(confirmed)
	return checks.Seen{"lost": lost, "twice": twice, "enough": len(confirmed) >= 2*enough}, err
}

// missing empties the queue, by a connection of its own: how many of those did not come, and how
// many came more than once.
func missing(confirmed map[string]bool) (int, int, error) {
	connection, err := amqp.Dial(url("guest"))
	if err != nil {
		return 0, 0, err
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		return 0, 0, err
	}
	left, err := channel.QueueDeclarePassive(storm, true, false, false, false, nil)
	if err != nil {
		return 0, 0, err
	}
	deliveries, err := channel.Consume(storm, "", true, false, false, false, nil)
	if err != nil {
		return 0, 0, err
	}
	came, twice := map[string]bool{}, 0
	for range left.Messages {
		delivery, err := next(deliveries)
		if err != nil {
			return 0, 0, err
		}
		if came[string(delivery.Body)] {
			twice++
		}
		came[string(delivery.Body)] = true
	}
	lost := 0
	for body := range confirmed {
		if !came[body] {
			lost++
		}
	}
	_, err = channel.QueueDelete(storm, false, false, false)
	return lost, twice, err
}
