package decide

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// refusals are the answers of the API server that keep a pod from leaving, as package commit hands them to the core.
var refusals = map[string]struct {
	answer effect.Answered
	// names is a part of the message that shows who refuses. request means that the eviction of an annotated pod counts
	// as requested.
	names   string
	request bool
}{
	"budget": {
		effect.Answered{Result: effect.Throttled, Problem: "would violate the pod's disruption budget", Intercepted: true},
		"disruption budget", true,
	},
	"webhook's 429": {
		effect.Answered{Result: effect.Throttled, Problem: `webhook "w" denied the request: later`, Intercepted: true},
		`webhook "w"`, true,
	},
	"webhook's 403": {
		effect.Answered{Result: effect.Refused, Problem: `webhook "w" denied the request: never`},
		`webhook "w"`, false,
	},
	"webhook's 500": {
		effect.Answered{Result: effect.Refused, Problem: `webhook "w" denied the request: rolled`, Intercepted: true},
		`webhook "w"`, true,
	},
	"webhook without an answer": {
		effect.Answered{
			Result: effect.Refused, Problem: `failed calling webhook "w": context deadline exceeded`, Intercepted: true,
		}, `webhook "w"`, true,
	},
	"overload": {
		effect.Answered{Result: effect.Throttled, Problem: "too many requests"}, "too many requests", false,
	},
	"no answer": {
		effect.Answered{Result: effect.Unknown, Problem: "connection lost"}, "connection lost", true,
	},
}

// answered carries everything out for a time, in steps of a tenth of a second, except that evictions are answered with
// a. It returns when evictions were sent.
func (r *planRig) answered(a effect.Answered, during time.Duration) (sent []time.Time) {
	r.Helper()
	for end := r.b.now.Add(during); r.b.now.Before(end); r.wait(100 * time.Millisecond) {
		for len(r.b.lines) > 0 {
			e, is := r.b.lines[0].(effect.Evict)
			if !is {
				r.performFirst(delivered)
				continue
			}
			sent = append(sent, r.b.now)
			answerNext(r, func(effect.Evict) effect.Input {
				a.Op = e.Op
				return a
			})
			r.see()
		}
	}
	return sent
}

// last returns the message of the last decision of a kind; false if there was none.
func (r *planRig) last(kind events.DecisionKind) (message string, found bool) {
	for _, d := range r.published {
		if d.Kind == kind {
			message, found = d.Message, true
		}
	}
	return message, found
}

// A victim of a plan that stays is tried again, each time after a longer pause, and a bounded number of times before
// that is reported, with who refuses. A pod whose eviction can only be requested is asked once.
func TestRefusalsOfAPlansVictim(t *testing.T) {
	for name, tt := range refusals {
		for _, annotated := range []bool{false, true} {
			t.Run(map[bool]string{false: name, true: name + ", annotated"}[annotated], func(t *testing.T) {
				r := newPlanRig(t, 1)
				if annotated {
					r.annotated(state.AnnotationRequestEvictOnly, "v4")
				}
				r.nominated(0, "v4")
				sent := r.answered(tt.answer, 4*time.Second)
				if annotated && tt.request {
					why, _ := r.last(events.DecisionEvictBackground)
					if len(sent) != 1 || !strings.Contains(why, tt.names) {
						t.Errorf("%d evictions were sent; it is waited for because %q", len(sent), why)
					}
					return
				}
				for i := 2; i < len(sent); i++ {
					if sent[i].Sub(sent[i-1]) < sent[i-1].Sub(sent[i-2]) {
						t.Errorf("evictions at %v: the pauses become shorter", sent)
					}
				}
				if tt.answer.Result == effect.Unknown {
					return // it is tried until the plan is given up
				}
				why, refused := r.last(events.DecisionEvictRefused)
				if len(sent) != r.limits.EvictionTries || !refused || !strings.Contains(why, tt.names) {
					t.Errorf("%d evictions were sent, refused %t because %q", len(sent), refused, why)
				}
			})
		}
	}
}

// An order of the descheduler is refused at once, or when it ends, with who refuses: other pods may leave instead.
func TestRefusalsOfAnOrder(t *testing.T) {
	for name, tt := range refusals {
		t.Run(name, func(t *testing.T) {
			r := newPlanRig(t, 1)
			r.useDefaultEvictionHang()
			d := orderEvict("v4", 1)
			d.NotAfter = r.b.now.Add(time.Minute)
			r.receive(d)
			sent := r.answered(tt.answer, 30*time.Second)
			if tt.answer.Result == effect.Unknown {
				r.answered(tt.answer, 10*time.Minute)
			} else if len(sent) != 1 {
				t.Errorf("%d evictions were sent, want one", len(sent))
			}
			if why, refused := r.last(events.DecisionEvictRefused); !refused || !strings.Contains(why, tt.names) {
				t.Errorf("refused %t because %q, want the cause", refused, why)
			}
			if _, claimed := r.victim("v4-uid"); claimed {
				t.Error("it is still claimed")
			}
		})
	}
}
