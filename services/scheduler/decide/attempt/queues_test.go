package attempt

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
	"github.com/berth-scheduler/berth/pkg/state"
)

func attemptAt(uid string, priority int32) *Attempt {
	return &Attempt{Offer: work.Offer{Pod: events.PodRef{UID: uid}}, Pod: &state.Pod{UID: uid, Priority: priority}}
}

func TestIllegalTransitionsAreFaults(t *testing.T) {
	for _, tc := range []struct {
		name string
		play func(q *Queues, a *Attempt)
		want string // "" for legal
	}{
		{"offer to end", func(q *Queues, a *Attempt) {
			q.Append(Pending, a)
			q.End(q.Next())
		}, ""},
		{"sent, and ended without an answer", func(q *Queues, a *Attempt) {
			q.Send([]*Attempt{a})
			q.End(a)
		}, "the attempt at pod p goes from in flight to ended"},
		{"deferred, and staged without a decision", func(q *Queues, a *Attempt) {
			q.Append(Deferred, a)
			q.Append(Staged, a)
		}, "the attempt at pod p goes from deferred to staged"},
		{"ended twice", func(q *Queues, a *Attempt) {
			q.End(a)
			q.End(a)
		}, "the attempt at pod p goes from ended to ended"},
		{"in no queue", func(*Queues, *Attempt) {}, "1 attempts are in no queue"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q, a := NewQueues(), attemptAt("p", 0)
			q.Begin(a)
			tc.play(q, a)
			switch err := q.Err(); {
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
	q        *Queues
	list     map[Phase][]*Attempt
	question uint64
}

// put makes an attempt that is taken up wait in a queue, or ends it.
func (m *queueModel) put(t *rapid.T, a *Attempt) {
	m.question++
	to := rapid.SampledFrom(transitions[deciding]).Draw(t, "to")
	if to == InFlight && m.q.Count(InFlight) > 0 {
		to = Staged // there is one transaction at a time
	}
	first := false
	switch to {
	case ended:
		m.q.End(a)
		return
	case InFlight:
		m.q.Send([]*Attempt{a})
	case Consulting, Reserving, Filtering:
		m.q.Await(a, to, m.question)
	case Rejected:
		m.q.Reject(a)
	case Seeking:
		a.PreemptionOrder = m.question
		m.q.Seek(a)
	default:
		if first = rapid.Bool().Draw(t, "first"); first {
			m.q.Prepend(to, a)
		} else {
			m.q.Append(to, a)
		}
	}
	at := len(m.list[to])
	if first {
		at = 0
	}
	m.list[to] = slices.Insert(m.list[to], at, a)
}

// take takes up all attempts of a phase.
func (m *queueModel) take(t *rapid.T, from Phase) {
	list, want := m.q.TakeAll(from), m.list[from]
	if from == Seeking {
		slices.SortStableFunc(want, func(a, b *Attempt) int { return int(b.Pod.Priority - a.Pod.Priority) })
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
	if err := m.q.Err(); err != nil {
		t.Fatal(err)
	}
	total := 0
	for p, list := range m.list {
		total += len(list)
		if m.q.Count(p) != len(list) {
			t.Errorf("%d are %s, want %d", m.q.Count(p), p, len(list))
		}
		for _, a := range list {
			if a.Phase != p || m.q.ByPod[a.Offer.Pod.UID] != a {
				t.Errorf("pod %s is %s, want %s", a.Offer.Pod.UID, a.Phase, p)
			}
		}
	}
	if len(m.q.ByPod) != total {
		t.Errorf("%d attempts are known, want %d", len(m.q.ByPod), total)
	}
}

// Whatever is done with attempts, each is exactly once in the queue of its phase, and queues keep their order.
func TestAttemptsAreInTheQueueOfTheirPhase(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &queueModel{q: NewQueues(), list: map[Phase][]*Attempt{}}
		for n := range rapid.IntRange(1, 40).Draw(t, "actions") {
			switch {
			case rapid.Bool().Draw(t, "new"):
				a := attemptAt(strconv.Itoa(n), rapid.Int32Range(0, 3).Draw(t, "priority"))
				m.q.Begin(a)
				m.put(t, a)
			case rapid.Bool().Draw(t, "resume"):
				m.q.Resume()
				m.list[Pending] = slices.Concat(m.list[Deferred], m.list[Pending])
				delete(m.list, Deferred)
			default:
				m.take(t, rapid.SampledFrom(transitions[deciding]).Draw(t, "from"))
			}
			m.check(t)
		}
	})
}

func podsOf(list []*Attempt) (uids []string) {
	for _, a := range list {
		uids = append(uids, a.Offer.Pod.UID)
	}
	return uids
}
