package explain

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
)

const (
	// questionsBuffer bounds the questions that wait in one service; more are dropped, and
	// whoever asked hears nothing.
	questionsBuffer = 16
	// answersBuffer bounds the answers to one question that wait for who asked.
	answersBuffer = 128
	// replyPrefix begins the subjects of answers.
	replyPrefix = "answers."
)

// Question is about one pod or one node.
type Question struct {
	// Reply is the subject to answer on; Ask fills it in.
	Reply string `json:"reply"`
	// Pod is a UID, or namespace/name; Node a name.
	Pod  string `json:"pod,omitempty"`
	Node string `json:"node,omitempty"`
	// Status asks about all there is, and nothing else.
	Status bool `json:"status,omitempty"`
	// Owner and Since ask the queue also for the pods of one controller (by its UID) that were
	// created then or later.
	Owner string    `json:"owner,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// Ask sends a question to all who listen on a subject, and returns the answers that have come
// when enough says so, or ctx ends: then what has come is all there is. The error is about the
// asking alone.
func Ask[A any](ctx context.Context, bus events.Bus, subject string, q Question, enough func([]A) bool) ([]A, error) {
	q.Reply = replyPrefix + strings.ToLower(rand.Text())
	raw := make(chan []byte, answersBuffer)
	stop, err := bus.Subscribe(q.Reply, func(data []byte) {
		select {
		case raw <- data:
		default:
		}
	})
	if err != nil {
		return nil, err
	}
	defer stop()
	text, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	if err := bus.Publish(subject, text); err != nil {
		return nil, err
	}
	var answers []A
	for !enough(answers) {
		select {
		case <-ctx.Done():
			return answers, nil
		case data := <-raw:
			var a A
			if err := json.Unmarshal(data, &a); err != nil {
				return answers, fmt.Errorf("explain: an answer on %s: %w", subject, err)
			}
			answers = append(answers, a)
		}
	}
	return answers, nil
}

// Serve answers the questions on a subject, one at a time, until ctx ends. With ok false the
// question is left to others.
func Serve[A any](
	ctx context.Context, bus events.Bus, subject string, answer func(context.Context, Question) (a A, ok bool),
) error {
	questions := make(chan Question, questionsBuffer)
	stop, err := bus.Subscribe(subject, func(data []byte) {
		var q Question
		if json.Unmarshal(data, &q) != nil || !strings.HasPrefix(q.Reply, replyPrefix) {
			return // nobody to answer
		}
		select {
		case questions <- q:
		default:
		}
	})
	if err != nil {
		return fmt.Errorf("explain: %w", err)
	}
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case q := <-questions:
			a, ok := answer(ctx, q)
			if !ok {
				continue
			}
			text, err := json.Marshal(a)
			if err != nil {
				return fmt.Errorf("explain: an answer on %s: %w", subject, err)
			}
			_ = bus.Publish(q.Reply, text) // whoever asked hears nothing, and says so
		}
	}
}
