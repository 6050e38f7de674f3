package conformance

import (
	"testing"

	"github.com/berth-scheduler/berth/pkg/placement/placementtest"
)

// withVolumes is a cluster most of whose pods have volumes.
var withVolumes = placementtest.Size{MinNodes: 4, MaxNodes: 25, MaxPodsPerNode: 4, Volumes: 60}

// leastVolumeRejects is what every rule about volumes must at least have rejected, in percent
// of the decisions.
const leastVolumeRejects = 3

// TestVolumes is TestPlacement in clusters with volumes: the same feasible nodes, codes, reasons
// and messages as upstream's plugins.
func TestVolumes(t *testing.T) {
	prepareUpstream(t)
	first := firstSeed(t)
	seen := newTally()
	for i := uint64(0); seen.total < *comparisons; i++ {
		compareHistory(t, first+i, withVolumes, seen)
		if t.Failed() {
			t.Fatalf("replay this history with -run TestVolumes -args -seed=%d -comparisons=1", first+i)
		}
	}
	t.Log(seen)
	for _, plugin := range volumeFilters {
		share := seen.percent(seen.rejects[plugin])
		t.Logf("%s rejects %.1f%%", plugin, share)
		if *comparisons >= 2000 && share < leastVolumeRejects {
			t.Errorf("the input is lopsided: %s rejects too little", plugin)
		}
	}
	if *comparisons >= 2000 && seen.placed < seen.total/10 {
		t.Errorf("the input is lopsided: %d of %d are placed", seen.placed, seen.total)
	}
}
