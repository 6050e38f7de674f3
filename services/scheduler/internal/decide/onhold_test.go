package decide_test

import (
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// A pod that is staged for a place which is only held for it may not get it. Who counted it under a rule is decided
// again.
func TestWhoCountsAPodThatIsNominated(t *testing.T) {
	st := newStory(t, 1, 0, 1)
	st.addNodeIn("n0", "a", 10)
	st.addNodeIn("n1", "b", 1)
	st.running("there", "n0", evenly, important(500))
	st.running("victim", "n1", important(1))
	st.tell()
	first := st.pod("first", evenly, important(10))
	st.drive(func() bool { return st.s.commit != nil && st.s.commit.Kind == "T2" })
	second := st.pod("second", evenly)
	st.drive(func() bool { return st.s.commit == nil && !st.s.more })
	if _, hold, _ := st.hold(first); hold.State != ledger.Held {
		t.Fatalf("%+v, want a place held on n1", hold)
	}
	if at := st.reservedAt(second); len(at) > 0 {
		t.Errorf("reserved on %q next to one pod, with none in the other zone", at)
	}
}

