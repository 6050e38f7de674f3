package txns_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/invariant"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
)

// deviceFacts are facts about one bound pod and one claim.
type deviceFacts struct {
	claim    txns.DeviceClaimFact
	progress uint64
}

func (deviceFacts) PodFact(string) (uint64, bool, bool) { return 50, true, true }
func (deviceFacts) PodProgress() uint64                 { return 60 }

func (f deviceFacts) ClaimFact(string, string) txns.DeviceClaimFact { return f.claim }
func (f deviceFacts) ClaimProgress() uint64                         { return f.progress }

// podFactsOnly are facts without claims.
type podFactsOnly struct{ txns.PodFacts }

// TestDevicesAreHandedOverWithTheirClaims: the reservation of a bound pod leaves when the facts show that no write
// to its claims can arrive any more, and the document's high-water states from which version on they show it.
func TestDevicesAreHandedOverWithTheirClaims(t *testing.T) {
	const decided = 40
	tests := map[string]struct {
		facts txns.PodFacts
		hw    uint64 // 0: it stays
	}{
		"facts without claims":           {podFactsOnly{deviceFacts{}}, 0},
		"not seen moving":                {deviceFacts{txns.DeviceClaimFact{UID: "c", RV: decided}, 60}, 0},
		"protected, nothing more seen":   {deviceFacts{txns.DeviceClaimFact{UID: "c", RV: 44, Protected: true}, 60}, 0},
		"has devices":                    {deviceFacts{txns.DeviceClaimFact{UID: "c", RV: 45, Allocated: true}, 60}, 45},
		"had them, or was fenced":        {deviceFacts{txns.DeviceClaimFact{UID: "c", RV: 48}, 60}, 48},
		"gone, and another has its name": {deviceFacts{txns.DeviceClaimFact{UID: "d", RV: 55}, 60}, 60},
		"gone":                           {deviceFacts{txns.DeviceClaimFact{}, 60}, 60},
		"not there yet":                  {deviceFacts{txns.DeviceClaimFact{}, decided - 1}, 0},
		"nothing known about any claims": {deviceFacts{txns.DeviceClaimFact{}, 0}, 0},
		"allocated before the decision's": {deviceFacts{txns.DeviceClaimFact{UID: "c", RV: decided - 1, Allocated: true}, 60},
			0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := ledger.NodeDoc{NodeUID: "n", Entries: []ledger.Entry{{
				PodUID: "p", Namespace: "default", Name: "p", Role: ledger.RoleReservation, State: ledger.Committed,
				PodRV: 30, Token: 1,
				Devices: []ledger.DevicePick{{Claim: "c", ClaimUID: "c", ClaimRV: decided, Allocation: []byte{1}}, {Claim: "had"}},
			}}}
			after, changed := txns.Finish(d, test.facts)
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

// TestClaimThatIsMadeIsNamedOnce: a claim gets its UID only while its reservation is Committed. That is the only
// permitted rewrite of a reservation, and until then the claim does not delay the hand-over of the reservation.
func TestClaimThatIsMadeIsNamedOnce(t *testing.T) {
	d := ledger.NodeDoc{NodeUID: "n", Revision: 5, Entries: []ledger.Entry{{
		PodUID: "p", Namespace: "default", Name: "p", Role: ledger.RoleReservation, State: ledger.Committed,
		PodRV: 30, Token: 1, Devices: []ledger.DevicePick{{Claim: "c", Allocation: []byte{1}, Spec: []byte{2}}},
	}}}
	made := func(claim, uid string, rv uint64) ledger.DevicePick {
		return ledger.DevicePick{Claim: claim, ClaimUID: uid, ClaimRV: rv}
	}
	named, err := txns.NameClaim(d, "p", 1, made("c", "uid", 40))
	if err != nil {
		t.Fatal(err)
	}
	got := named.Entries[0].Devices[0]
	if got.ClaimUID != "uid" || got.ClaimRV != 40 || d.Entries[0].Devices[0].ClaimUID != "" {
		t.Errorf("named: %+v, the document it was made of: %+v", got, d.Entries[0].Devices)
	}
	named.Revision = 6
	if v := invariant.CheckSuccessor(d, named); len(v) > 0 {
		t.Errorf("not a step: %v", v)
	}
	other := named
	other.Revision = 7
	other.Entries = []ledger.Entry{named.Entries[0]}
	got.ClaimUID, got.ClaimRV = "other", 41
	other.Entries[0].Devices = []ledger.DevicePick{got}
	if v := invariant.CheckSuccessor(named, other); len(v) == 0 {
		t.Error("a claim that has its name gets another")
	}
	fenced, err := txns.MarkFencing(d, "p", 1, ledger.FenceByPod)
	if err != nil {
		t.Fatal(err)
	}
	for what, refused := range map[string]func() (ledger.NodeDoc, error){
		"fenced":           func() (ledger.NodeDoc, error) { return txns.NameClaim(fenced, "p", 1, made("c", "uid", 40)) },
		"another token":    func() (ledger.NodeDoc, error) { return txns.NameClaim(d, "p", 2, made("c", "uid", 40)) },
		"another claim":    func() (ledger.NodeDoc, error) { return txns.NameClaim(d, "p", 1, made("d", "uid", 40)) },
		"named":            func() (ledger.NodeDoc, error) { return txns.NameClaim(named, "p", 1, made("c", "uid", 40)) },
		"no UID":           func() (ledger.NodeDoc, error) { return txns.NameClaim(d, "p", 1, made("c", "", 40)) },
		"no version of it": func() (ledger.NodeDoc, error) { return txns.NameClaim(d, "p", 1, made("c", "uid", 0)) },
	} {
		if _, err := refused(); err == nil {
			t.Errorf("%s: the claim is named", what)
		}
	}
	facts := deviceFacts{txns.DeviceClaimFact{}, 60}
	if _, settled := txns.SettledClaims(d.Entries[0], facts); !settled {
		t.Error("a claim that has not been made is waited for")
	}
	facts.claim = txns.DeviceClaimFact{UID: "uid", RV: 40}
	if _, settled := txns.SettledClaims(named.Entries[0], facts); settled {
		t.Error("a claim that may still be written to is settled")
	}
}

// The hashes of parameters that an allocation leaves out are stored in their order, including empty ones.
func TestHashesOfConfigurationAreStored(t *testing.T) {
	d := ledger.NodeDoc{NodeUID: "n", NodeName: "n", Revision: 1, Entries: []ledger.Entry{{
		PodUID: "p", Role: ledger.RoleReservation, State: ledger.Committed, PodRV: 1, Token: 1,
		Devices: []ledger.DevicePick{{Claim: "c", Allocation: []byte{1}, ConfigHashes: [][]byte{{1}, {}, {2, 3}}}},
	}}}
	value, err := codec.EncodeNodeDoc(d)
	if err != nil {
		t.Fatal(err)
	}
	got, err := codec.DecodeNodeDoc(ledger.KV{Key: ledger.KeyNode("n"), Value: value, ModRevision: 1})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, got); diff != "" {
		t.Errorf("document (-want +got): %s", diff)
	}
}
