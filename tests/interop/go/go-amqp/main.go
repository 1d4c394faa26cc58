// go-amqp, an AMQP 1.0 engine of its own: one JSON line per check. Arguments: host, port, pattern
// of queue addresses ({} stands for the name). A queue is named after its check.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"time"

	amqp "github.com/Azure/go-amqp"

	"interop/checks"
)

const many = 200

type act func(ctx context.Context, session *amqp.Session, address string) (any, error)

func dial(ctx context.Context, password string) (*amqp.Conn, error) {
	return amqp.Dial(ctx, fmt.Sprintf("amqp://%s:%s", os.Args[1], os.Args[2]), &amqp.ConnOptions{
		SASLType:    amqp.SASLTypePlain("guest", password),
		ContainerID: "go-amqp",
	})
}

// with gives the check a session and the address of its queue.
func with(name string, act act) checks.Named {
	return checks.Named{Name: name, Run: func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), checks.Patience)
		defer cancel()
		connection, err := dial(ctx, "guest")
		if err != nil {
			return nil, err
		}
		session, err := connection.NewSession(ctx, nil)
		if err != nil {
			return nil, err
		}
		got, err := act(ctx, session, address("go."+name))
		if closing := connection.Close(); err == nil {
			err = closing
		}
		return got, err
	}}
}

func address(queue string) string {
	return strings.ReplaceAll(os.Args[3], "{}", queue)
}

func send(ctx context.Context, session *amqp.Session, address string, all ...*amqp.Message) error {
	sender, err := session.NewSender(ctx, address, nil)
	if err != nil {
		return err
	}
	for _, one := range all {
		if err := sender.Send(ctx, one, nil); err != nil {
			return err
		}
	}
	return sender.Close(ctx)
}

func order(ctx context.Context, session *amqp.Session, address string) (any, error) {
	receiver, err := session.NewReceiver(ctx, address, &amqp.ReceiverOptions{Credit: 20})
	if err != nil {
		return nil, err
	}
	sender, err := session.NewSender(ctx, address, nil)
	if err != nil {
		return nil, err
	}
	accepted := 0
	var receipts []amqp.SendReceipt
	for number := range many {
		message := amqp.NewMessage([]byte(strconv.Itoa(number)))
		receipt, err := sender.SendWithReceipt(ctx, message, nil)
		if err != nil {
			return nil, err
		}
		receipts = append(receipts, receipt)
	}
	for _, receipt := range receipts {
		state, err := receipt.Wait(ctx)
		if err != nil {
			return nil, err
		}
		if _, is := state.(*amqp.StateAccepted); is {
			accepted++
		}
	}
	inOrder := true
	for number := range many {
		message, err := receiver.Receive(ctx, nil)
		if err != nil {
			return nil, err
		}
		inOrder = inOrder && string(message.GetData()) == strconv.Itoa(number)
		if err := receiver.AcceptMessage(ctx, message); err != nil {
			return nil, err
		}
	}
	return checks.Seen{"count": many, "in_order": inOrder, "accepted": accepted}, nil
}

func outcomes(ctx context.Context, session *amqp.Session, address string) (any, error) {
	if err := send(ctx, session, address, amqp.NewMessage([]byte("again"))); err != nil {
		return nil, err
	}
	receiver, err := session.NewReceiver(ctx, address, &amqp.ReceiverOptions{Credit: -1})
	if err != nil {
		return nil, err
	}
	if err := receiver.IssueCredit(5); err != nil {
		return nil, err
	}
	failed := &amqp.ModifyMessageOptions{
		DeliveryFailed: true,
		Annotations:    amqp.Annotations{"x-opt-why": "because"},
	}
	settle := []func(*amqp.Message) error{
		func(one *amqp.Message) error { return receiver.ReleaseMessage(ctx, one) },
		func(one *amqp.Message) error { return receiver.ModifyMessage(ctx, one, failed) },
		func(one *amqp.Message) error { return receiver.RejectMessage(ctx, one, nil) },
	}
	var counts []uint32
	var why any
	for _, act := range settle {
		message, err := receiver.Receive(ctx, nil)
		if err != nil {
			return nil, err
		}
		count := uint32(0)
		if message.Header != nil {
			count = message.Header.DeliveryCount
		}
		counts = append(counts, count)
		why = message.Annotations["x-opt-why"]
		if err := act(message); err != nil {
			return nil, err
		}
	}
	if err := receiver.DrainCredit(ctx, nil); err != nil {
		return nil, err
	}
	gone := receiver.Prefetched() == nil
	return checks.Seen{"counts": counts, "why": why, "gone": gone}, nil
}

func large(ctx context.Context, session *amqp.Session, address string) (any, error) {
	body := checks.Body(8<<20 + 17)
	if err := send(ctx, session, address, amqp.NewMessage(body)); err != nil {
		return nil, err
	}
	receiver, err := session.NewReceiver(ctx, address, nil)
	if err != nil {
		return nil, err
	}
	message, err := receiver.Receive(ctx, nil)
	if err != nil {
		return nil, err
	}
	same := reflect.DeepEqual(message.GetData(), body)
	return checks.Seen{"size": len(message.GetData()), "same": same},
		receiver.AcceptMessage(ctx, message)
}

func pointer[T any](value T) *T { return &value }

// values: each type of the standard that this client knows comes back as it went.
func values(ctx context.Context, session *amqp.Session, address string) (any, error) {
	properties := map[string]any{
		"null": nil, "bool": true, "ubyte": uint8(255), "ushort": uint16(65535),
		"uint": uint32(1<<32 - 1), "ulong": uint64(1<<64 - 1), "byte": int8(-128),
		"short": int16(-32768), "int": int32(-1 << 31), "long": int64(-1 << 63),
		"float": float32(0.5), "double": 1e300, "string": "grün ✓",
		"binary":    []byte{0, 255, 10},
		"timestamp": time.UnixMilli(1234567890123), "uuid": amqp.UUID{1, 2, 3, 255},
	}
	body := map[any]any{
		"list":  []any{int32(1), "two", nil, map[string]any{"deep": uint64(3)}},
		"array": []int32{1, -2, 3}, int64(7): "a key of another type",
	}
	sent := &amqp.Message{
		Header:      &amqp.MessageHeader{Durable: true, Priority: 7, TTL: time.Hour},
		Annotations: amqp.Annotations{"x-opt-text": "annotation", "x-opt-number": int64(5)},
		Properties: &amqp.MessageProperties{
			MessageID: amqp.UUID{9}, UserID: []byte("guest"), To: pointer(address),
			Subject: pointer("subject"), ReplyTo: pointer("reply"), CorrelationID: uint64(77),
			ContentType: pointer("text/plain"), ContentEncoding: pointer("utf-8"),
			AbsoluteExpiryTime: pointer(time.UnixMilli(4102444800000)),
			CreationTime:       pointer(time.UnixMilli(1700000000000)),
			GroupID:            pointer("group"), GroupSequence: pointer(uint32(4)),
			ReplyToGroupID: pointer("other"),
		},
		ApplicationProperties: properties,
		Value:                 body,
		Footer:                amqp.Annotations{"x-opt-foot": "note"},
	}
	if err := send(ctx, session, address, sent); err != nil {
		return nil, err
	}
	receiver, err := session.NewReceiver(ctx, address, nil)
	if err != nil {
		return nil, err
	}
	came, err := receiver.Receive(ctx, nil)
	if err != nil {
		return nil, err
	}
	if err := receiver.AcceptMessage(ctx, came); err != nil {
		return nil, err
	}
	other := []string{}
	look := func(name string, saw, wanted any) {
		if !reflect.DeepEqual(saw, wanted) {
			other = append(other, fmt.Sprintf("%s: %T %#v", name, saw, saw))
		}
	}
	for name, value := range properties {
		if symbol, is := value.(amqp.Symbol); is {
			value = string(symbol) // which is all that this client tells of it
		}
		look(name, came.ApplicationProperties[name], value)
	}
	for name, value := range sent.Annotations {
		look(fmt.Sprint(name), came.Annotations[name], value)
	}
	look("body", came.Value, any(body))
	look("properties", came.Properties, sent.Properties)
	look("footer", came.Footer, sent.Footer)
	look("durable", came.Header.Durable, true)
	look("priority", came.Header.Priority, uint8(7))
	look("ttl", came.Header.TTL > 59*time.Minute && came.Header.TTL <= time.Hour, true)
	sort.Strings(other)
	return checks.Seen{"other": other}, nil
}

// selector: a filter of the source, as JMS and Qpid write it.
func selector(ctx context.Context, session *amqp.Session, address string) (any, error) {
	var all []*amqp.Message
	for _, colour := range []string{"red", "green", "blue"} {
		one := amqp.NewMessage([]byte(colour))
		one.ApplicationProperties = map[string]any{"colour": colour}
		all = append(all, one)
	}
	if err := send(ctx, session, address, all...); err != nil {
		return nil, err
	}
	found := []string{}
	for _, filters := range [][]amqp.LinkFilter{
		{amqp.NewSelectorFilter("colour = 'green'")}, nil,
	} {
		receiver, err := session.NewReceiver(ctx, address, &amqp.ReceiverOptions{Filters: filters})
		if err != nil {
			return nil, err
		}
		for range 2 {
			limit, cancel := context.WithTimeout(ctx, 5*time.Second)
			if filters != nil && len(found) > 0 {
				cancel()
				break
			}
			message, err := receiver.Receive(limit, nil)
			cancel()
			if err != nil {
				return nil, err
			}
			found = append(found, string(message.GetData()))
			if err := receiver.AcceptMessage(ctx, message); err != nil {
				return nil, err
			}
		}
		if err := receiver.Close(ctx); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// reply: a dynamic node under the server's address, and a request that names it.
func reply(ctx context.Context, session *amqp.Session, address string) (any, error) {
	answers, err := session.NewReceiver(ctx, "", &amqp.ReceiverOptions{DynamicAddress: true})
	if err != nil {
		return nil, err
	}
	request := amqp.NewMessage([]byte("question"))
	request.Properties = &amqp.MessageProperties{ReplyTo: pointer(answers.Address()), MessageID: "1"}
	if err := send(ctx, session, address, request); err != nil {
		return nil, err
	}
	serving, err := session.NewReceiver(ctx, address, nil)
	if err != nil {
		return nil, err
	}
	came, err := serving.Receive(ctx, nil)
	if err != nil {
		return nil, err
	}
	if err := serving.AcceptMessage(ctx, came); err != nil {
		return nil, err
	}
	back := amqp.NewMessage([]byte("answer"))
	back.Properties = &amqp.MessageProperties{CorrelationID: came.Properties.MessageID}
	if err := send(ctx, session, *came.Properties.ReplyTo, back); err != nil {
		return nil, err
	}
	answer, err := answers.Receive(ctx, nil)
	if err != nil {
		return nil, err
	}
	seen := []any{string(answer.GetData()), answer.Properties.CorrelationID}
	return seen, answers.AcceptMessage(ctx, answer)
}

// anonymous: a sender without a target, each message says where it goes.
func anonymous(ctx context.Context, session *amqp.Session, address string) (any, error) {
	sender, err := session.NewSender(ctx, "", nil)
	if err != nil {
		return nil, err
	}
	message := amqp.NewMessage([]byte("to whom it concerns"))
	message.Properties = &amqp.MessageProperties{To: pointer(address)}
	if err := sender.Send(ctx, message, nil); err != nil {
		return nil, err
	}
	receiver, err := session.NewReceiver(ctx, address, nil)
	if err != nil {
		return nil, err
	}
	came, err := receiver.Receive(ctx, nil)
	if err != nil {
		return nil, err
	}
	return string(came.GetData()), receiver.AcceptMessage(ctx, came)
}

func refused(ctx context.Context, session *amqp.Session, _ string) (any, error) {
	found := []string{}
	condition := func(err error) {
		var said *amqp.Error
		var link *amqp.LinkError
		if errors.As(err, &link) && link.RemoteErr != nil {
			said = link.RemoteErr
		}
		if said != nil || errors.As(err, &said) {
			found = append(found, string(said.Condition))
		} else {
			found = append(found, fmt.Sprint(err))
		}
	}
	_, err := session.NewReceiver(ctx, address("go.none"), nil)
	condition(err)
	_, err = session.NewSender(ctx, address("go.none"), nil)
	condition(err)
	_, err = dial(ctx, "wrong")
	sender, alive := session.NewSender(ctx, "", nil)
	if alive == nil {
		alive = sender.Close(ctx)
	}
	return checks.Seen{"conditions": found, "login": err != nil, "alive": alive == nil}, nil
}

func login(ctx context.Context) (*amqp.Session, error) {
	connection, err := dial(ctx, "guest")
	if err != nil {
		return nil, err
	}
	return connection.NewSession(ctx, nil)
}

// recovery: this client has none; its users dial again, as this does, and find what was confirmed.
func recovery() (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*checks.Patience)
	defer cancel()
	address := address("go.recovery")
	session, err := login(ctx)
	if err != nil {
		return nil, err
	}
	message := amqp.NewMessage([]byte("kept"))
	message.Header = &amqp.MessageHeader{Durable: true}
	if err := send(ctx, session, address, message); err != nil {
		return nil, err
	}
	receiver, err := session.NewReceiver(ctx, address, nil)
	if err != nil {
		return nil, err
	}
	if _, err := receiver.Receive(ctx, nil); err != nil { // and not settled
		return nil, err
	}
	if err := checks.Restart(); err != nil {
		return nil, err
	}
	_, err = receiver.Receive(ctx, nil)
	var lost *amqp.ConnError
	told := errors.As(err, &lost)
	again, err := login(ctx)
	if err != nil {
		return nil, err
	}
	receiver, err = again.NewReceiver(ctx, address, nil)
	if err != nil {
		return nil, err
	}
	kept, err := receiver.Receive(ctx, nil)
	if err != nil {
		return nil, err
	}
	seen := checks.Seen{"told": told, "kept": string(kept.GetData())}
	return seen, receiver.AcceptMessage(ctx, kept)
}

func main() {
	checks.Run([]checks.Named{
		with("order", order),
		with("outcomes", outcomes),
		with("large", large),
		with("values", values),
		with("selector", selector),
		with("reply", reply),
		with("anonymous", anonymous),
		with("refused", refused),
		{Name: "recovery", Run: recovery},
	})
}
