package conformance

import (
	"testing"

	"github.com/berth-scheduler/berth/pkg/placement/placementtest"
)

// withVolumes is a cluster most of whose pods have volumes.
var withVolumes = placementtest.Size{MinNodes: 4, MaxNodes: 25, MaxPodsPerNode: 4, Volumes: 60}

// leastVolumeRejects is the least percentage of decisions in which every rule about volumes must have rejected.
const leastVolumeRejects = 3

// volumeReasons are those of the rules about volumes that are the same for every cluster.
var volumeReasons = []string{
	"node(s) had no available disk",
	"node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
	"node(s) exceed max volume count",
	"node(s) didn't match PersistentVolume's node affinity",
	"node(s) didn't find available persistent volumes to bind",
	"node(s) did not have enough free storage",
	"node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
	"pod has unbound immediate PersistentVolumeClaims",
	"node(s) had no available volume zone",
}

// TestVolumes is TestPlacement in clusters with volumes: the same feasible nodes, codes, reasons
// and messages as upstream's plugins.
func TestVolumes(t *testing.T) {
	seen := compareHistories(t, withVolumes)
	for _, plugin := range volumeFilters {
		share := seen.percent(seen.rejects[plugin])
		t.Logf("%s rejects %.1f%%", plugin, share)
		if *comparisons >= 2000 && share < leastVolumeRejects {
			lacks(t, "%s rejects too little", plugin)
		}
	}
	for _, reason := range volumeReasons {
		t.Logf("%.1f%% %s", seen.percent(seen.reasons[reason]), reason)
		if *comparisons >= 2000 && seen.reasons[reason] == 0 {
			lacks(t, "no %q", reason)
		}
	}
	if *comparisons >= 2000 && seen.placed < seen.total/10 {
		lacks(t, "%d of %d are placed", seen.placed, seen.total)
	}
}
