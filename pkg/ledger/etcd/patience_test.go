package etcd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestPatienceGrowsWithoutAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p patience
		ask := func(limit time.Duration, err error) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if err != nil {
				<-ctx.Done()
			}
			p.learn(ctx, limit, err)
		}
		lost := errors.New("no answer")
		for _, want := range []time.Duration{firstPatience, 2 * firstPatience, requestTimeout, requestTimeout} {
			if got := p.limit(); got != want {
				t.Fatalf("limit %s, want %s", got, want)
			}
			ask(p.limit(), lost)
			ask(firstPatience, lost) // sent earlier, together with others
		}
		ask(p.limit(), nil)
		if got := p.limit(); got != firstPatience {
			t.Errorf("after an answer %s, want %s", got, firstPatience)
		}
		p.learn(t.Context(), firstPatience, lost) // refused, not unanswered
		if got := p.limit(); got != firstPatience {
			t.Errorf("after a refusal %s, want %s", got, firstPatience)
		}
	})
}
