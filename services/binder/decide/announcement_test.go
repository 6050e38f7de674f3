package decide

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// reserveFor reserves a place for p0 whose volumes and devices are those given, and shows it to the binder.
func (r *rig) reserveFor(volumes []ledger.VolumePick, devices []ledger.DevicePick) {
	r.Helper()
	r.shards[0].facts, r.shards[0].docs = len(r.api.history)-1, len(r.ledger.history)
	if !r.place(0, 0) {
		r.Fatal("the shard could not place p0 on n0")
	}
	d := r.doc()
	d.Entries = slices.Clone(d.Entries)
	d.Entries[0].Volumes, d.Entries[0].Devices = volumes, devices
	r.putDoc(d)
	r.showDocs(r.b, len(r.ledger.history))
}

func (r *rig) nominatedNode() string { return r.api.now().pods["p0-uid"].Status().NominatedNodeName }

var lacking = []ledger.VolumePick{{Claim: "c"}}

// The node of a reservation is in the pod's status before the first claim is written, and the bind names the version
// after that. Pods without such work are bound at once.
func TestNodeIsAnnouncedBeforeClaimsAreWritten(t *testing.T) {
	for _, test := range []struct {
		name      string
		volumes   []ledger.VolumePick
		devices   []ledger.DevicePick
		announced bool
	}{
		{name: "nothing to prepare"},
		{name: "a volume that exists", volumes: []ledger.VolumePick{{Claim: "c", HasVolume: true}}},
		{name: "a volume to bind", volumes: lacking, announced: true},
		{name: "devices", devices: []ledger.DevicePick{{Claim: "d", ClaimUID: "u", Allocation: []byte{1}}}, announced: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, 1)
			r.reserveFor(test.volumes, test.devices)
			if test.announced {
				e := run[effect.Announce](r, delivered)
				if e.NodeName != "n0" || r.nominatedNode() != "n0" {
					t.Fatalf("%+v, and the pod is nominated to %q", e, r.nominatedNode())
				}
			}
			if e := run[effect.Bind](r, delivered); r.api.now().pods["p0-uid"].NodeName != "n0" {
				t.Fatalf("not bound by %+v", e)
			}
			r.wantDecisions(events.DecisionBound)
		})
	}
}

// A pod that is nominated to the node already, by a hold or by the binder that held its partition before, is not
// announced again.
func TestNodeThatShowsIsNotAnnounced(t *testing.T) {
	r := newRig(t, 1)
	r.api.changePod("p0-uid", nominate("n0"))
	r.see()
	r.reserveFor(lacking, nil)
	run[effect.Bind](r, delivered)
}

// The announcement loses to a change of the pod: as for a bind, the pod and then the document are read, and it is
// announced at the new version.
func TestAnnouncementOfAChangedPod(t *testing.T) {
	r := newRig(t, 1)
	r.reserveFor(lacking, nil)
	r.api.changePod("p0-uid", annotate("a", "b"))
	run[effect.Announce](r, delivered)
	run[effect.ReadDoc](r, delivered)
	run[effect.Announce](r, delivered)
	if r.nominatedNode() != "n0" {
		t.Fatal("not announced")
	}
	run[effect.Bind](r, delivered)
	r.wantDecisions(events.DecisionBound)
}

// An announcement whose answer is lost is found done, and one that was lost is sent again.
func TestAnnouncementWithoutAnAnswer(t *testing.T) {
	for name, fate := range map[string]delivery{"carried out": answerLost, "lost": requestLost} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			r.reserveFor(lacking, nil)
			run[effect.Announce](r, fate)
			r.quiet("a pause")
			r.wait(r.limits.Retry.Duration)
			run[effect.Announce](r, delivered)
			if fate == answerLost {
				run[effect.ReadDoc](r, delivered)
			}
			if r.nominatedNode() != "n0" {
				t.Fatal("not announced")
			}
			run[effect.Bind](r, delivered)
		})
	}
}

// A node that cannot be announced does not keep the pod from being bound.
func TestAnnouncementThatIsRefused(t *testing.T) {
	r := newRig(t, 1)
	r.reserveFor(lacking, nil)
	answer(r, func(e effect.Announce) effect.Input {
		return effect.Answered{Op: e.Op, Result: effect.Refused, Problem: "forbidden"}
	})
	run[effect.Bind](r, delivered)
	r = newRig(t, 1)
	r.reserveFor(lacking, nil)
	answer(r, func(e effect.Announce) effect.Input {
		return effect.Answered{Op: e.Op, Result: effect.Unknown, Failed: true, Problem: "a webhook is not reachable"}
	})
	run[effect.Bind](r, delivered)
}

// A reservation that is taken back is no longer announced: its fence clears the name in the write that makes the bind
// fail.
func TestFenceClearsTheAnnouncement(t *testing.T) {
	r := newRig(t, 1)
	r.reserveFor(lacking, nil)
	run[effect.Announce](r, delivered)
	answer(r, func(e effect.Bind) effect.Input {
		return effect.Answered{Op: e.Op, Result: effect.Refused, Problem: "volume v is for claim x"}
	})
	r.expectFence("volume v is for claim x")
	if name := r.nominatedNode(); name != "" {
		t.Fatalf("nominated to %q after the fence", name)
	}
}

// A pod that is bound or gone meanwhile is neither announced nor bound.
func TestAnnouncementOfAPodThatHasGone(t *testing.T) {
	for name, change := range map[string]func(r *rig){
		"gone":  func(r *rig) { r.api.deletePod("p0-uid") },
		"bound": func(r *rig) { r.api.changePod("p0-uid", func(p *corev1.Pod) { p.Spec.NodeName = "n9" }) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			r.reserveFor(lacking, nil)
			change(r)
			run[effect.Announce](r, delivered)
			r.quiet(name)
		})
	}
}
