package ledger_test

import (
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// deviceFacts are facts about one bound pod and one claim.
type deviceFacts struct {
	claim    ledger.ClaimFact
	progress uint64
}

func (deviceFacts) PodFact(string) (uint64, bool, bool) { return 50, true, true }
func (deviceFacts) PodProgress() uint64                 { return 60 }

func (f deviceFacts) ClaimFact(string, string) ledger.ClaimFact { return f.claim }
func (f deviceFacts) ClaimProgress() uint64                     { return f.progress }

// podFactsOnly knows of no claims.
type podFactsOnly struct{ ledger.PodFacts }

// TestDevicesAreHandedOverWithTheirClaims: the reservation of a bound pod leaves when the facts show
// that no write to its claims can come any more, and the document says from where on they do.
func TestDevicesAreHandedOverWithTheirClaims(t *testing.T) {
	const decided = 40
	tests := map[string]struct {
		facts ledger.PodFacts
		hw    uint64 // 0: it stays
	}{
		"facts without claims":            {podFactsOnly{deviceFacts{}}, 0},
		"not seen moving":                 {deviceFacts{ledger.ClaimFact{UID: "c", RV: decided}, 60}, 0},
		"protected, nothing more seen":    {deviceFacts{ledger.ClaimFact{UID: "c", RV: 44, Protected: true}, 60}, 0},
		"has devices":                     {deviceFacts{ledger.ClaimFact{UID: "c", RV: 45, Allocated: true}, 60}, 45},
		"had them, or was fenced":         {deviceFacts{ledger.ClaimFact{UID: "c", RV: 48}, 60}, 48},
		"gone, and another has its name":  {deviceFacts{ledger.ClaimFact{UID: "d", RV: 55}, 60}, 60},
		"gone":                            {deviceFacts{ledger.ClaimFact{}, 60}, 60},
		"not there yet":                   {deviceFacts{ledger.ClaimFact{}, decided - 1}, 0},
		"nothing known about any claims":  {deviceFacts{ledger.ClaimFact{}, 0}, 0},
		"allocated before the decision's": {deviceFacts{ledger.ClaimFact{UID: "c", RV: decided - 1, Allocated: true}, 60}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := ledger.NodeDoc{NodeUID: "n", Entries: []ledger.Entry{{
				PodUID: "p", Namespace: "default", Name: "p", Role: ledger.RoleReservation, State: ledger.Committed,
				PodRV: 30, Token: 1,
				Devices: []ledger.DevicePick{{Claim: "c", ClaimUID: "c", ClaimRV: decided, Allocation: []byte{1}}, {Claim: "had"}},
			}}}
			after, changed := ledger.Finish(d, test.facts)
			switch {
			case test.hw == 0 && (changed || len(after.Entries) != 1 || len(after.HW) != 0):
				t.Errorf("the entry leaves: %+v", after)
			case test.hw == 0:
			case len(after.Entries) != 0 || after.HW[ledger.KindClaim] != test.hw || after.HW[ledger.KindPod] != 50:
				t.Errorf("%d entries, high-waters %v, want none, %d and 50", len(after.Entries), after.HW, test.hw)
			}
		})
	}
}
