package explain

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

const (
	// questionsBuffer bounds the questions that wait in one service; further questions are dropped, and the asker
	// gets no answer.
	questionsBuffer = 16
	// answersBuffer bounds the answers to one question that wait for the asker.
	answersBuffer = 128
	// replyPrefix is the prefix of the subjects that answers are sent on.
	replyPrefix = "answers."
)

// Question is about one pod, one node or one gang, or about the whole service (Status). A service leaves questions
// that it cannot answer to others.
type Question struct {
	// Reply is the subject to answer on; Ask fills it in.
	Reply string `json:"reply"`
	// Pod is a UID or namespace/name; Node is a name.
	Pod  string `json:"pod,omitempty"`
	Node string `json:"node,omitempty"`
	// Gang is the namespace/name of a PodGroup. The queue answers about the member that stands for the gang.
	Gang string `json:"gang,omitempty"`
	// Status asks for the status of the whole service, and nothing else.
	Status bool `json:"status,omitempty"`
	// Owner and Since also ask the queue for the pods of one controller (by its UID) created at Since or later.
	Owner string    `json:"owner,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// Ask sends a question to all subscribers of a subject, and returns the answers received when enough returns true or
// ctx ends; in the latter case it returns the answers so far and no error. The error is about sending the question and
// reading the answers alone. The caller must bound ctx: a service that is down never answers. Each call has a reply
// subject of its own, so calls may be concurrent.
func Ask[A any](ctx context.Context, bus eventlog.Bus, subject string, q Question, enough func([]A) bool) ([]A, error) {
	q.Reply = replyPrefix + strings.ToLower(rand.Text())
	// Subscribe before publishing: an answer may arrive at once. The callback runs on the bus' goroutine and must not
	// block it, so a full buffer drops answers.
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
	// The end of ctx is the normal end for a question to all shards: how many of them there are is not known here.
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

// Serve answers the questions on a subject, one at a time, until ctx ends. A question for which answer returns ok
// false is left to other subscribers. It subscribes before it returns anything, and unsubscribes at the end. Questions
// that do not decode, or whose reply subject is not one of Ask's, are ignored: anyone on the bus may publish them, and
// an answer must not go to a subject of the protocol.
func Serve[A any](
	ctx context.Context, bus eventlog.Bus, subject string, answer func(context.Context, Question) (a A, ok bool),
) error {
	// Answers may take as long as a step of the service; the buffer takes the questions of the meantime.
	questions := make(chan Question, questionsBuffer)
	stop, err := bus.Subscribe(subject, func(data []byte) {
		var q Question
		if json.Unmarshal(data, &q) != nil || !strings.HasPrefix(q.Reply, replyPrefix) {
			return // there is no address to answer to
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
			// One question at a time: an evaluation of all nodes uses a whole processor of the service that decides.
			a, ok := answer(ctx, q)
			if !ok {
				continue
			}
			text, err := json.Marshal(a)
			if err != nil {
				return fmt.Errorf("explain: an answer on %s: %w", subject, err)
			}
			_ = bus.Publish(q.Reply, text) // the asker then gets no answer, and reports that
		}
	}
}
