package conformance

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/placement/placementtest"
	"github.com/berth-scheduler/berth/pkg/seedtest"
)

var (
	comparisons = flag.Int("comparisons", 2000, "how many decisions to compare at least")
	seed        = flag.Uint64("seed", 0, "seed of the first cluster; 0: TEST_SEED")
)

// decisionsPerHistory is how many decisions one cluster serves, with changes in between:
// building upstream's framework costs as much as several of them.
const decisionsPerHistory = 40

// mostUnanswered is the share of decisions, in percent, that may have nothing to be compared with because
// upstream fails. (Measured: 0.8 with claims to devices, 2.2 of preemptions, none otherwise.)
const mostUnanswered = 5

// firstSeed is the seed of the first history; that of the next is one more.
func firstSeed(t *testing.T) uint64 {
	t.Helper()
	first := seedtest.First(t, *seed)
	t.Logf("first seed %d; replay with -args -seed=%d -comparisons=%d", first, first, *comparisons)
	return first
}

// TestPlacement: for the same history of a cluster, pod and profile, our answer is upstream's.
func TestPlacement(t *testing.T) {
	seen := compareHistories(t, placementtest.Small)
	if missing := seen.uncovered(); *comparisons >= 2000 && len(missing) > 0 {
		lacks(t, "%v", missing)
	}
}

// compareHistories compares as many decisions as are wanted, in clusters of a size.
func compareHistories(t *testing.T, size placementtest.Size) *tally {
	t.Helper()
	prepareUpstream()
	first := firstSeed(t)
	seen := newTally()
	for i := uint64(0); seen.total < *comparisons; i++ {
		compareHistory(t, first+i, size, seen)
		if t.Failed() {
			t.Fatalf("replay this history with -run '^%s$' -args -seed=%d -comparisons=1", t.Name(), first+i)
		}
	}
	t.Log(seen)
	if seen.unanswered*100 > mostUnanswered*seen.total && *comparisons >= 2000 {
		t.Errorf("upstream gave no answer in %d of %d decisions, want %d%% at most", seen.unanswered, seen.total,
			mostUnanswered)
	}
	return seen
}

// compareHistory compares the decisions of one random history, and makes it small if one of
// them differs.
func compareHistory(t *testing.T, seed uint64, size placementtest.Size, seen *tally) {
	t.Helper()
	g := placementtest.New(seed)
	g.Size = size
	h := history{config: g.Profile(), cache: placementtest.Pick(g, caches...)}
	script := g.Script(decisionsPerHistory)
	diff, at, err := h.replay(t.Context(), script, seen)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if diff == "" {
		return
	}
	small := placementtest.Shrink(script[:at+1], func(s placementtest.Script) bool {
		d, _, err := h.replay(t.Context(), s, nil)
		return err == nil && d != ""
	})
	smallDiff, _, _ := h.replay(t.Context(), small, nil)
	t.Errorf("seed %d: upstream (-) and ours (+) differ:\n%s\nas they do in this history:\n%s\nby\n%s\nwith\n%s",
		seed, diff, small, smallDiff, h)
}

// history is the input with which a script is replayed.
type history struct {
	config placement.ProfileConfig
	cache  engine.Config
}

// caches are the default, one that holds a few classes, and one that holds the last alone.
var caches = []engine.Config{{}, {CacheBytes: 1 << 15}, {CacheBytes: 1}}

// replay runs a history on both sides up to the first decision that differs, and returns
// how and at which step. If none does, what nodes add up to in the end must not either.
// Decisions are counted in seen, unless that is nil.
func (h history) replay(
	ctx context.Context, script placementtest.Script, seen *tally,
) (diff string, at int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	both, err := newSides(ctx, h.config, h.cache)
	if err != nil {
		return "", 0, err
	}
	defer func() {
		if seen != nil {
			seen.unanswered += both.unanswered
		}
	}()
	for i, step := range script {
		if step.Pod == nil {
			if err := both.apply(ctx, step.Event); err != nil {
				return "", i, err
			}
			if seen != nil && step.Event.What != placementtest.Start {
				seen.changes++
			}
			continue
		}
		want, differs := both.compare(ctx, step.Pod, step.Seed)
		if differs != "" {
			return differs, i, nil
		}
		if seen != nil {
			seen.count(want)
		}
	}
	diff, err = both.sumsDiff(ctx)
	return diff, len(script) - 1, err
}

// String is the profile, and the cache, in a line per plugin.
func (h history) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%+v\n", h.cache)
	for _, p := range h.config.Plugins {
		args, err := json.Marshal(p.Args)
		if err != nil {
			args = []byte(err.Error())
		}
		fmt.Fprintf(&b, "%s, weight %d, points %d, args %s\n", p.Name, p.Weight, p.Points, args)
	}
	return b.String()
}
