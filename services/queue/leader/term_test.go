package leader

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/queue/generation"
	"github.com/berth-scheduler/berth/services/queue/intake"
)

// A round that follows another repairs the log, and passes on that Kubernetes was restored from a backup.
func TestRepairAfter(t *testing.T) {
	back := &intake.WentBackError{Kind: events.KindPod, Was: 9, Is: 7}
	for name, c := range map[string]struct {
		err  error
		want cause
	}{
		"an error": {errors.New("gone"), cause{intake.CauseRepair, generation.Evidence{Claimed: true}}},
		"a restore": {
			fmt.Errorf("round: %w", back),
			cause{intake.CauseRepair, generation.Evidence{Claimed: true, WentBack: back.Error()}},
		},
	} {
		if diff := cmp.Diff(c.want, repairAfter(c.err), cmp.AllowUnexported(cause{})); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// A state has stalled for as long as its position has not changed, also if it was read again from the same position.
func TestStall(t *testing.T) {
	var s stall
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		after    time.Duration
		sequence uint64
		want     time.Duration
	}{
		{0, 7, 0}, {5 * time.Second, 7, 5 * time.Second}, {9 * time.Second, 7, 9 * time.Second},
		{10 * time.Second, 8, 0}, {12 * time.Second, 8, 2 * time.Second}, {13 * time.Second, 7, 0},
	} {
		if got := s.duration(state.Position{Sequence: step.sequence}, noon.Add(step.after)); got != step.want {
			t.Errorf("after %s at %d: %s, want %s", step.after, step.sequence, got, step.want)
		}
	}
}
