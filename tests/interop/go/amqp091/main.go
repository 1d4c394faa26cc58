// amqp091-go: one JSON line per check. Arguments: host, port.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"interop/checks"
)

const many = 200

func url(password string) string {
	return fmt.Sprintf("amqp://guest:%s@%s:%s/", password, os.Args[1], os.Args[2])
}

// with gives the check a connection and a channel, and closes them.
func with(act func(*amqp.Connection, *amqp.Channel) (any, error)) checks.Check {
	return func() (any, error) {
		connection, err := amqp.Dial(url("guest"))
		if err != nil {
			return nil, err
		}
		channel, err := connection.Channel()
		if err != nil {
			return nil, err
		}
		got, err := act(connection, channel)
		if closing := connection.Close(); err == nil {
			err = closing
		}
		return got, err
	}
}

func ownQueue(channel *amqp.Channel) (string, error) {
	queue, err := channel.QueueDeclare("", false, false, true, false, nil)
	return queue.Name, err
}

func publish(channel *amqp.Channel, queue string, message amqp.Publishing) error {
	ctx, cancel := context.WithTimeout(context.Background(), checks.Patience)
	defer cancel()
	return channel.PublishWithContext(ctx, "", queue, true, false, message)
}

// next is the next delivery, or why there is none.
func next(deliveries <-chan amqp.Delivery) (amqp.Delivery, error) {
	select {
	case delivery, open := <-deliveries:
		if !open {
			return delivery, errors.New("the consumer ended")
		}
		return delivery, nil
	case <-time.After(checks.Patience):
		return amqp.Delivery{}, errors.New("no delivery came")
	}
}

func consume(channel *amqp.Channel, queue string) (<-chan amqp.Delivery, error) {
	return channel.Consume(queue, "", false, false, false, false, nil)
}

func order(connection *amqp.Connection, channel *amqp.Channel) (any, error) {
	queue, err := ownQueue(channel)
	if err != nil {
		return nil, err
	}
	if err := channel.Qos(20, 0, false); err != nil {
		return nil, err
	}
	deliveries, err := consume(channel, queue)
	if err != nil {
		return nil, err
	}
	publishing, err := connection.Channel()
	if err != nil {
		return nil, err
	}
	if err := publishing.Confirm(false); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), checks.Patience)
	defer cancel()
	var pending []*amqp.DeferredConfirmation
	for number := range many {
		one, err := publishing.PublishWithDeferredConfirmWithContext(
			ctx, "", queue, false, false, amqp.Publishing{Body: []byte(strconv.Itoa(number))})
		if err != nil {
			return nil, err
		}
		pending = append(pending, one)
	}
	confirmed := 0
	for _, one := range pending {
		if acked, err := one.WaitContext(ctx); err != nil {
			return nil, err
		} else if acked {
			confirmed++
		}
	}
	inOrder := true
	for number := range many {
		delivery, err := next(deliveries)
		if err != nil {
			return nil, err
		}
		inOrder = inOrder && string(delivery.Body) == strconv.Itoa(number)
		if err := delivery.Ack(false); err != nil {
			return nil, err
		}
	}
	return checks.Seen{"count": many, "in_order": inOrder, "confirmed": confirmed}, nil
}

func requeue(_ *amqp.Connection, channel *amqp.Channel) (any, error) {
	queue, err := ownQueue(channel)
	if err != nil {
		return nil, err
	}
	if err := publish(channel, queue, amqp.Publishing{Body: []byte("again")}); err != nil {
		return nil, err
	}
	deliveries, err := consume(channel, queue)
	if err != nil {
		return nil, err
	}
	var redelivered []bool
	settle := []func(amqp.Delivery) error{
		func(one amqp.Delivery) error { return one.Nack(false, true) },
		func(one amqp.Delivery) error { return one.Reject(true) },
		func(one amqp.Delivery) error { return one.Nack(false, false) },
	}
	for _, act := range settle {
		delivery, err := next(deliveries)
		if err != nil {
			return nil, err
		}
		redelivered = append(redelivered, delivery.Redelivered)
		if err := act(delivery); err != nil {
			return nil, err
		}
	}
	_, found, err := channel.Get(queue, true)
	return checks.Seen{"redelivered": redelivered, "gone": !found}, err
}

func transactions(connection *amqp.Connection, channel *amqp.Channel) (any, error) {
	queue, err := ownQueue(channel)
	if err != nil {
		return nil, err
	}
	observer, err := connection.Channel()
	if err != nil {
		return nil, err
	}
	if err := channel.Tx(); err != nil {
		return nil, err
	}
	var counts []int
	for _, end := range []func() error{channel.TxCommit, channel.TxRollback} {
		if err := publish(channel, queue, amqp.Publishing{Body: []byte("x")}); err != nil {
			return nil, err
		}
		for _, act := range []func() error{func() error { return nil }, end} {
			if err := act(); err != nil {
				return nil, err
			}
			seen, err := observer.QueueDeclarePassive(queue, false, false, true, false, nil)
			if err != nil {
				return nil, err
			}
			counts = append(counts, seen.Messages)
		}
	}
	return checks.Seen{"counts": counts}, nil
}

func large(_ *amqp.Connection, channel *amqp.Channel) (any, error) {
	queue, err := ownQueue(channel)
	if err != nil {
		return nil, err
	}
	body := checks.Body(8<<20 + 17)
	if err := publish(channel, queue, amqp.Publishing{Body: body}); err != nil {
		return nil, err
	}
	deliveries, err := consume(channel, queue)
	if err != nil {
		return nil, err
	}
	delivery, err := next(deliveries)
	if err != nil {
		return nil, err
	}
	same := bytes.Equal(delivery.Body, body)
	return checks.Seen{"size": len(delivery.Body), "same": same}, delivery.Ack(false)
}

func headers(_ *amqp.Connection, channel *amqp.Channel) (any, error) {
	sent := amqp.Publishing{
		Headers: amqp.Table{
			"bool": true, "byte": byte(255), "int8": int8(-128), "int16": int16(-32768),
			"int32": int32(-1 << 31), "int64": int64(-1 << 63), "uint16": uint16(65535),
			"uint32": uint32(1<<32 - 1), "float32": float32(0.5), "float64": 1e300,
			"decimal": amqp.Decimal{Scale: 2, Value: 314}, "string": "grün ✓",
			"time": time.Unix(1234567890, 0), "nil": nil, "octets": []byte{0, 255, 10},
			"table": amqp.Table{"list": []any{int32(1), "two", nil, true}},
		},
		ContentType:     "text/plain",
		ContentEncoding: "utf-8",
		DeliveryMode:    amqp.Persistent,
		Priority:        3,
		CorrelationId:   "c-1",
		ReplyTo:         "somewhere",
		Expiration:      "60000",
		MessageId:       "m-1",
		Timestamp:       time.Unix(1700000000, 0),
		Type:            "kind",
		UserId:          "guest",
		AppId:           "amqp091-go",
	}
	queue, err := ownQueue(channel)
	if err != nil {
		return nil, err
	}
	if err := publish(channel, queue, sent); err != nil {
		return nil, err
	}
	came, found, err := channel.Get(queue, true)
	if err != nil || !found {
		return nil, fmt.Errorf("nothing came: %w", err)
	}
	other := []string{}
	for name, value := range sent.Headers {
		if !reflect.DeepEqual(came.Headers[name], value) {
			other = append(other, fmt.Sprintf("%s: %#v", name, came.Headers[name]))
		}
	}
	sort.Strings(other)
	properties := []any{
		came.ContentType, came.ContentEncoding, came.DeliveryMode, came.Priority,
		came.CorrelationId, came.ReplyTo, came.Expiration, came.MessageId,
		came.Timestamp.Unix(), came.Type, came.UserId, came.AppId,
	}
	return checks.Seen{"other": other, "properties": properties}, nil
}

func returned(_ *amqp.Connection, channel *amqp.Channel) (any, error) {
	back := channel.NotifyReturn(make(chan amqp.Return, 1))
	nobody := "amqp091-nobody"
	if err := publish(channel, nobody, amqp.Publishing{Body: []byte("back")}); err != nil {
		return nil, err
	}
	select {
	case one := <-back:
		seen := checks.Seen{"code": one.ReplyCode, "text": one.ReplyText, "body": string(one.Body)}
		return seen, nil
	case <-time.After(checks.Patience):
		return nil, errors.New("it did not come back")
	}
}

// code is the reply code the server gave.
func code(err error) int {
	var said *amqp.Error
	if errors.As(err, &said) {
		return said.Code
	}
	return 0
}

func refused(connection *amqp.Connection, channel *amqp.Channel) (any, error) {
	var codes []int
	_, err := channel.QueueDeclarePassive("amqp091-none", false, false, false, false, nil)
	codes = append(codes, code(err))
	second, err := connection.Channel()
	if err != nil {
		return nil, err
	}
	if _, err := second.QueueDeclare("amqp091-mine", false, false, true, false, nil); err != nil {
		return nil, err
	}
	_, err = second.QueueDeclare("amqp091-mine", false, true, true, false, nil)
	codes = append(codes, code(err))
	_, err = amqp.Dial(url("wrong"))
	codes = append(codes, code(err))
	_, err = connection.Channel()
	return checks.Seen{"codes": codes, "alive": err == nil}, nil
}

// recovery: the server dies and comes back; the client's own recovery brings connection, channels,
// queues, a binding and a consumer.
func recovery() (any, error) {
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
	publishing, err := connection.Channel()
	if err != nil {
		return nil, err
	}
	consuming, err := connection.Channel()
	if err != nil {
		return nil, err
	}
	if _, err := publishing.QueueDeclare("amqp091-kept", true, false, false, false, nil); err != nil {
		return nil, err
	}
	if err := publishing.Confirm(false); err != nil {
		return nil, err
	}
	lasting := func(text string) amqp.Publishing {
		return amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(text)}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*checks.Patience)
	defer cancel()
	send := func(exchange, key string, message amqp.Publishing) (bool, error) {
		one, err := publishing.PublishWithDeferredConfirmWithContext(
			ctx, exchange, key, true, false, message)
		if err != nil {
			return false, err
		}
		return one.WaitContext(ctx)
	}
	if _, err := send("", "amqp091-kept", lasting("kept")); err != nil {
		return nil, err
	}
	queue, err := consuming.QueueDeclare("amqp091-lost", false, false, true, false, nil)
	if err != nil {
		return nil, err
	}
	if err := consuming.QueueBind(queue.Name, "key", "amq.topic", false, nil); err != nil {
		return nil, err
	}
	deliveries, err := consume(consuming, queue.Name)
	if err != nil {
		return nil, err
	}
	returns := publishing.NotifyReturn(make(chan amqp.Return, 1000))
	states := make(chan *amqp.StateChanged, 10)
	connection.NotifyStateChange(states)
	if _, err := send("amq.topic", "key", lasting("before")); err != nil {
		return nil, err
	}
	before, err := next(deliveries)
	if err != nil {
		return nil, err
	}
	bodies := []string{string(before.Body)}
	if err := before.Ack(false); err != nil {
		return nil, err
	}
	if err := checks.Restart(); err != nil {
		return nil, err
	}
	if err := reopened(states); err != nil {
		return nil, err
	}
	// queue, binding and consumer are there again, so that one message is enough
	acked, err := send("amq.topic", "key", lasting("after"))
	if err != nil || !acked || len(returns) > 0 {
		return nil, fmt.Errorf("after it: confirmed %v, returned %d, error %v", acked, len(returns), err)
	}
	after, err := next(deliveries)
	if err != nil {
		return nil, err
	}
	bodies = append(bodies, string(after.Body))
	if err := after.Ack(false); err != nil {
		return nil, err
	}
	kept, found, err := publishing.Get("amqp091-kept", true)
	if err != nil {
		return nil, err
	}
	if _, err := publishing.QueueDelete("amqp091-kept", false, false, false); err != nil {
		return nil, err
	}
	return checks.Seen{"bodies": bodies, "kept": found && string(kept.Body) == "kept"}, nil
}

// reopened waits until the client has recovered everything. Its documentation forbids requests
// before: one on a channel that is being opened again comes without publisher confirms.
func reopened(states <-chan *amqp.StateChanged) error {
	patience := time.After(2 * checks.Patience)
	for {
		select {
		case change := <-states:
			if change == nil || change.To == amqp.StateClosed {
				return fmt.Errorf("the client gave up: %v", change)
			}
			if change.To != amqp.StateOpen {
				continue
			}
			if len(change.SkippedTopologyEntities) > 0 {
				return fmt.Errorf("not recovered: %v", change.SkippedTopologyEntities)
			}
			return nil
		case <-patience:
			return errors.New("it did not recover")
		}
	}
}

func main() {
	checks.Run([]checks.Named{
		{Name: "order", Run: with(order)},
		{Name: "requeue", Run: with(requeue)},
		{Name: "tx", Run: with(transactions)},
		{Name: "large", Run: with(large)},
		{Name: "headers", Run: with(headers)},
		{Name: "returned", Run: with(returned)},
		{Name: "refused", Run: with(refused)},
		{Name: "recovery", Run: recovery},
	})
}
