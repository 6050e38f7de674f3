package conformance

import (
	"testing"

	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/placementtest"
)

// withDevices is a cluster most of whose pods have claims to devices.
var withDevices = placementtest.Size{MinNodes: 4, MaxNodes: 20, MaxPodsPerNode: 2, Devices: 75}

// deviceReasons are parts of reasons that the rule about devices gives.
var deviceReasons = []string{
	"cannot allocate all claims", "resourceclaim not available on the node",
	"device class lost does not exist", "ResourceClaim not created yet", "could not find ResourceClaim",
	"was not created for Pod",
}

// TestDevices is TestPlacement in clusters with devices: the same feasible nodes, codes, reasons,
// messages and scores as upstream's plugin.
func TestDevices(t *testing.T) {
	seen := compareHistories(t, withDevices)
	share := seen.percent(seen.rejects[names.DynamicResources])
	t.Logf("%s rejects %.1f%%, ranks %.1f%%", names.DynamicResources, share,
		seen.percent(seen.ranks[names.DynamicResources]))
	if *comparisons < 2000 {
		return
	}
	if share < 20 || seen.ranks[names.DynamicResources] == 0 || seen.placed < seen.total/10 {
		lacks(t, "%s rejects too little, ranks nothing, or %d of %d are placed",
			names.DynamicResources, seen.placed, seen.total)
	}
	for _, part := range deviceReasons {
		count := seen.reasonsWith(part)
		t.Logf("%.1f%% %s", seen.percent(count), part)
		if count == 0 {
			lacks(t, "no %q", part)
		}
	}
}
