package rabbit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"tandian/internal/kit/queue"
)

// schemaVersion is of the headers and of what the MAC covers; a body has a version of its own.
const schemaVersion = 1

// Headers of a message.
const (
	headerVersion  = "tandian-version"
	headerMAC      = "tandian-mac"
	headerAttempts = "tandian-attempts"
	headerAt       = "tandian-at"   // Unix milliseconds
	headerWait     = "tandian-wait" // milliseconds of a pause that are left when the delay queue lets go
	headerPublish  = "tandian-publish"
	// Only on dead letters that were parked.
	headerTopic  = "tandian-topic"
	headerReason = "tandian-reason"
)

// errForged is the reason of a message that doesn't carry our MAC.
var errForged = errors.New("forged")

// seal makes and checks messages with the key that all instances share.
type seal []byte

// publishing returns the message as it travels.
func (k seal) publishing(topic string, m queue.Message, wait time.Duration) amqp.Publishing {
	return amqp.Publishing{
		MessageId:     m.ID,
		CorrelationId: m.ID,
		DeliveryMode:  amqp.Persistent,
		Timestamp:     m.At,
		Body:          m.Body,
		Headers: amqp.Table{
			headerVersion:  int64(schemaVersion),
			headerAttempts: int64(m.Attempts),
			headerAt:       m.At.UnixMilli(),
			headerWait:     wait.Milliseconds(),
			headerMAC:      k.mac(topic, m, wait),
		},
	}
}

// open returns the message and the pause that is left of it. The message is filled in as far as possible even if the
// error says that it must not be acted on.
func (k seal) open(topic string, d *amqp.Delivery) (m queue.Message, wait time.Duration, err error) {
	m = queue.Message{ID: d.MessageId, Body: d.Body, Attempts: int(number(d.Headers, headerAttempts)), At: time.UnixMilli(number(d.Headers, headerAt)).UTC()}
	wait = time.Duration(number(d.Headers, headerWait)) * time.Millisecond
	mac, sealed := d.Headers[headerMAC].([]byte)
	version := number(d.Headers, headerVersion)
	switch {
	case !sealed:
		err = errForged
	case version != schemaVersion: // what its MAC covers is not known here
		err = fmt.Errorf("schema version %d, want %d", version, schemaVersion)
	case !hmac.Equal(mac, k.mac(topic, m, wait)):
		err = errForged
	}
	return m, wait, err
}

func number(t amqp.Table, key string) int64 {
	n, _ := t[key].(int64)
	return n
}

// mac covers all that a consumer acts on. Lengths keep the parts apart.
func (k seal) mac(topic string, m queue.Message, wait time.Duration) []byte {
	h := hmac.New(sha256.New, k)
	var b []byte
	for _, n := range []int{schemaVersion, len(topic), len(m.ID), m.Attempts} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = binary.BigEndian.AppendUint64(b, uint64(m.At.UnixMilli()))
	b = binary.BigEndian.AppendUint64(b, uint64(wait.Milliseconds()))
	b = append(append(b, topic...), m.ID...)
	h.Write(b)
	h.Write(m.Body)
	return h.Sum(nil)
}
