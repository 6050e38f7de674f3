package decide

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/events"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
	"github.com/berth-scheduler/berth/pkg/state"
)

func attemptAt(uid string, priority int32) *attempt {
	return &attempt{offer: events.Offer{Pod: events.PodRef{UID: uid}}, pod: &state.Pod{UID: uid, Priority: priority}}
}

func TestIllegalTransitionsAreFaults(t *testing.T) {
	for _, tc := range []struct {
		name string
		play func(q *attempts, a *attempt)
		want string // "" for legal
	}{
		{"offer to end", func(q *attempts, a *attempt) {
			q.append(pending, a)
			q.end(q.next())
		}, ""},
		{"sent, and ended without an answer", func(q *attempts, a *attempt) {
			q.send([]*attempt{a})
			q.end(a)
		}, "the attempt at pod p goes from in flight to ended"},
		{"deferred, and staged without a decision", func(q *attempts, a *attempt) {
			q.append(deferred, a)
			q.append(staged, a)
		}, "the attempt at pod p goes from deferred to staged"},
		{"ended twice", func(q *attempts, a *attempt) {
			q.end(a)
			q.end(a)
		}, "the attempt at pod p goes from ended to ended"},
		{"in no queue", func(*attempts, *attempt) {}, "1 attempts are in no queue"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q, a := newAttempts(), attemptAt("p", 0)
			q.begin(a)
			tc.play(&q, a)
			switch err := q.err(); {
			case tc.want == "" && err != nil:
				t.Errorf("fault %v, want none", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("fault %v, want %q", err, tc.want)
			}
		})
	}
}

// queueModel is attempts by phase, in their order.
type queueModel struct {
	q        attempts
	list     map[phase][]*attempt
	question uint64
}

// put has an attempt that is taken up wait somewhere, or ends it.
func (m *queueModel) put(t *rapid.T, a *attempt) {
	m.question++
	to := rapid.SampledFrom(transitions[deciding]).Draw(t, "to")
	if to == inFlight && m.q.count(inFlight) > 0 {
		to = staged // there is one transaction at a time
	}
	first := false
	switch to {
	case ended:
		m.q.end(a)
		return
	case inFlight:
		m.q.send([]*attempt{a})
	case consulting, reserving, filtering:
		m.q.ask(a, to, m.question)
	case rejected:
		m.q.reject(a)
	case seeking:
		a.sought = m.question
		m.q.seek(a)
	default:
		if first = rapid.Bool().Draw(t, "first"); first {
			m.q.prepend(to, a)
		} else {
			m.q.append(to, a)
		}
	}
	at := len(m.list[to])
	if first {
		at = 0
	}
	m.list[to] = slices.Insert(m.list[to], at, a)
}

// take takes up all that are in a phase.
func (m *queueModel) take(t *rapid.T, from phase) {
	list, want := m.q.takeAll(from), m.list[from]
	if from == seeking {
		slices.SortStableFunc(want, func(a, b *attempt) int { return int(b.pod.Priority - a.pod.Priority) })
	}
	if !slices.Equal(list, want) {
		t.Fatalf("%s are %v, want %v", from, podsOf(list), podsOf(want))
	}
	delete(m.list, from)
	for _, a := range list {
		m.put(t, a)
	}
}

func (m *queueModel) check(t *rapid.T) {
	if err := m.q.err(); err != nil {
		t.Fatal(err)
	}
	total := 0
	for p, list := range m.list {
		total += len(list)
		if m.q.count(p) != len(list) {
			t.Errorf("%d are %s, want %d", m.q.count(p), p, len(list))
		}
		for _, a := range list {
			if a.phase != p || m.q.byPod[a.offer.Pod.UID] != a {
				t.Errorf("pod %s is %s, want %s", a.offer.Pod.UID, a.phase, p)
			}
		}
	}
	if len(m.q.byPod) != total {
		t.Errorf("%d attempts are known, want %d", len(m.q.byPod), total)
	}
}

// Whatever is done with attempts, each is where its phase says, once, and queues keep their order.
func TestAttemptsAreWhereTheirPhaseSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &queueModel{q: newAttempts(), list: map[phase][]*attempt{}}
		for n := range rapid.IntRange(1, 40).Draw(t, "actions") {
			switch {
			case rapid.Bool().Draw(t, "new"):
				a := attemptAt(strconv.Itoa(n), rapid.Int32Range(0, 3).Draw(t, "priority"))
				m.q.begin(a)
				m.put(t, a)
			case rapid.Bool().Draw(t, "resume"):
				m.q.resume()
				m.list[pending] = slices.Concat(m.list[deferred], m.list[pending])
				delete(m.list, deferred)
			default:
				m.take(t, rapid.SampledFrom(transitions[deciding]).Draw(t, "from"))
			}
			m.check(t)
		}
	})
}

func podsOf(list []*attempt) (uids []string) {
	for _, a := range list {
		uids = append(uids, a.offer.Pod.UID)
	}
	return uids
}
