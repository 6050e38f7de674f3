package adaptivetimeout_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-scheduler/berth/pkg/adaptivetimeout"
)

const first, most = 2500 * time.Millisecond, 8 * time.Second

func TestPatienceGrowsWithoutAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := adaptivetimeout.New(first, most)
		ask := func(limit time.Duration, err error) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if err != nil {
				<-ctx.Done()
			}
			p.Observe(ctx, limit, err)
		}
		lost := errors.New("no answer")
		for _, want := range []time.Duration{first, 2 * first, most, most} {
			if got := p.Limit(); got != want {
				t.Fatalf("limit %s, want %s", got, want)
			}
			ask(p.Limit(), lost)
			ask(first, lost) // sent earlier, together with others
		}
		ask(p.Limit(), nil)
		if got := p.Limit(); got != first {
			t.Errorf("after an answer %s, want %s", got, first)
		}
		p.Observe(t.Context(), first, lost) // refused, not unanswered
		if got := p.Limit(); got != first {
			t.Errorf("after a refusal %s, want %s", got, first)
		}
	})
}
