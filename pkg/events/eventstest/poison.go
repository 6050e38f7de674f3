package eventstest

import (
	"strings"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

// PoisonDecisions returns records of decisions that no reader can decode, by what is wrong with them.
func PoisonDecisions() map[string]eventlog.Message {
	with := func(change func(*eventlog.Message)) eventlog.Message {
		m := events.EncodeDecision(events.Decision{
			Kind: events.DecisionEvict, Pod: events.PodRef{UID: "poison", Namespace: "default", Name: "poison"},
			Token: "0123456789abcdef", Message: "poison",
		})
		change(&m)
		return m
	}
	header := func(key, value string) eventlog.Message {
		return with(func(m *eventlog.Message) { m.Header.Set(key, value) })
	}
	return map[string]eventlog.Message{
		"no headers":      with(func(m *eventlog.Message) { m.Header = nil }),
		"a later schema":  header(eventlog.HeaderSchema, "99"),
		"no kind":         header(eventlog.HeaderKind, ""),
		"an odd kind":     header(eventlog.HeaderKind, "Evict!"),
		"no uid":          header(eventlog.HeaderUID, ""),
		"a broken escape": header(eventlog.HeaderName, "%4"),
		"a payload that ends early": with(func(m *eventlog.Message) {
			m.Data = m.Data[:len(m.Data)-1]
		}),
		"no message": with(func(m *eventlog.Message) { m.Data = []byte{0xff, 0xff} }),
		"900 kB of no message": with(func(m *eventlog.Message) {
			m.Data = []byte(strings.Repeat("\xff", 900<<10))
		}),
	}
}
