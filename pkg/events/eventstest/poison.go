package eventstest

import (
	"strings"

	"github.com/berth-scheduler/berth/pkg/events"
)

// PoisonDecisions returns records of decisions that no reader can decode, by what is wrong with them.
func PoisonDecisions() map[string]events.Message {
	with := func(change func(*events.Message)) events.Message {
		m := events.EncodeDecision(events.Decision{
			Kind: events.DecisionEvict, Pod: events.PodRef{UID: "poison", Namespace: "default", Name: "poison"},
			Token: "0123456789abcdef", Message: "poison",
		})
		change(&m)
		return m
	}
	header := func(key, value string) events.Message {
		return with(func(m *events.Message) { m.Header.Set(key, value) })
	}
	return map[string]events.Message{
		"no headers":      with(func(m *events.Message) { m.Header = nil }),
		"a later schema":  header(events.HeaderSchema, "99"),
		"no kind":         header(events.HeaderKind, ""),
		"an odd kind":     header(events.HeaderKind, "Evict!"),
		"no uid":          header(events.HeaderUID, ""),
		"a broken escape": header(events.HeaderName, "%4"),
		"a payload that ends early": with(func(m *events.Message) {
			m.Data = m.Data[:len(m.Data)-1]
		}),
		"no message": with(func(m *events.Message) { m.Data = []byte{0xff, 0xff} }),
		"900 kB of no message": with(func(m *events.Message) {
			m.Data = []byte(strings.Repeat("\xff", 900<<10))
		}),
	}
}
