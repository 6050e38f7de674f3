package decide

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// boundTo returns the pod in its bound form.
func boundTo(p *state.Pod, node string) *state.Pod {
	obj := p.Object().DeepCopy()
	obj.Spec.NodeName = node
	return state.NewPod(obj)
}

// begins shows the binder an open generation of the ledger, which goes with facts of later epochs.
func (r *rig) begins(number, factsAfter uint64) {
	r.Helper()
	g := identity.Generation{Number: number, Open: true, FactsAfter: factsAfter}
	value, err := identity.EncodeGeneration(g)
	if err != nil {
		r.Fatal(err)
	}
	r.ledger.revision++
	batch := ledger.EventBatch{Revision: r.ledger.revision, Events: []ledger.Event{{
		KV: ledger.KV{Key: identity.KeyGeneration, Value: value, ModRevision: r.ledger.revision},
	}}}
	r.step(r.b, effect.LedgerChanged{Batch: replica.Batch{Events: batch}})
}

// Kubernetes was restored from a backup. In the earlier facts, a pod is bound that is pending now, and another pod,
// whose resourceVersion they had passed, seems to be deleted. Neither ends a present reservation.
func TestFactsOfBeforeARestoreEndNoReservation(t *testing.T) {
	for name, before := range map[string]func(v *apiVersion){
		"bound":   func(v *apiVersion) { v.pods["p0-uid"] = boundTo(v.pods["p0-uid"], "n0") },
		"missing": func(v *apiVersion) { delete(v.pods, "p0-uid") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			now := r.api.now()
			then := &apiVersion{rv: 900, pods: map[string]*state.Pod{"p0-uid": now.pods["p0-uid"]}, nodes: now.nodes}
			before(then)
			r.step(r.b, effect.FactsChanged{Cluster: then, Sequence: 50, Epoch: 7, PodProgress: 900, PodProgressKnown: true})
			r.begins(2, 7)
			e := r.reserve()
			r.wait(0)
			r.quiet("facts of before the restore")
			r.step(r.b, effect.FactsChanged{Cluster: now, Sequence: 60, Epoch: 8, PodProgress: now.rv, PodProgressKnown: true})
			if bind := run[effect.Bind](r, delivered); bind.Token != e.Token {
				t.Errorf("bound with token %s, want %s", bind.Token, e.Token)
			}
		})
	}
}

// While the queue republishes the facts, the binder does not take a missing pod for deleted.
func TestEvictionWaitsWhileFactsArePublishedAgain(t *testing.T) {
	r := newRig(t, 1)
	r.begins(1, 0)
	now := r.api.now()
	partly := &apiVersion{rv: now.rv, nodes: now.nodes}
	r.step(r.b, effect.FactsChanged{Cluster: partly, Sequence: 60, Epoch: 8})
	r.receive(orderEvict("p0", 1))
	r.wantDecisions()
	r.quiet("the pod has not been told of yet")
	r.step(r.b, effect.FactsChanged{Cluster: partly, Sequence: 61, Epoch: 8, PodProgress: now.rv, PodProgressKnown: true})
	r.wantDecisions(events.DecisionEvicted)
}

// An eviction that was requested before the ledger began a new generation rests on facts that may no longer hold.
func TestEvictionOfAnEarlierGenerationIsRefused(t *testing.T) {
	r := newRig(t, 1)
	r.begins(1, 0)
	partly := &apiVersion{rv: 1}
	r.step(r.b, effect.FactsChanged{Cluster: partly, Sequence: 60, Epoch: 8})
	r.receive(orderEvict("p0", 1))
	r.wantDecisions()
	r.begins(2, 9)
	if d := r.wantDecisions(events.DecisionEvictRefused)[0]; !strings.Contains(d.Message, "begins anew") {
		t.Errorf("refused because %q", d.Message)
	}
	r.see()
	r.wait(time.Minute)
	r.quiet("the eviction was refused")
}

// A binder that starts reads about an eviction before it has read the ledger; or a ledger that predates generations
// gets its first one. The eviction rests on facts that still hold.
func TestEvictionOfBeforeTheFirstGenerationIsValid(t *testing.T) {
	for name, shows := range map[string]func(r *rig){
		"the first listing": func(r *rig) { r.lists(identity.Generation{Number: 2, Open: true, FactsAfter: 3}) },
		"the first generation": func(r *rig) {
			r.lists(identity.Generation{})
			r.begins(1, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			now := &apiVersion{rv: r.api.now().rv, nodes: r.api.now().nodes}
			r.step(r.b, effect.FactsChanged{Cluster: now, Sequence: 60, Epoch: 8})
			r.receive(orderEvict("p0", 1))
			shows(r)
			r.wantDecisions()
			r.step(r.b, effect.FactsChanged{Cluster: now, Sequence: 61, Epoch: 8, PodProgress: now.rv, PodProgressKnown: true})
			r.wantDecisions(events.DecisionEvicted)
		})
	}
}

// lists shows the binder a list of the ledger, which has a generation unless its number is 0.
func (r *rig) lists(g identity.Generation) {
	r.Helper()
	r.ledger.revision++
	batch := replica.Batch{Reset: true, Events: ledger.EventBatch{Revision: r.ledger.revision}}
	if g.Number > 0 {
		value, err := identity.EncodeGeneration(g)
		if err != nil {
			r.Fatal(err)
		}
		batch.KVs = []ledger.KV{{Key: identity.KeyGeneration, Value: value, ModRevision: r.ledger.revision}}
	}
	r.step(r.b, effect.LedgerChanged{Batch: batch})
}

// The binder had written a condition under a resourceVersion that is yet to come. It writes the condition again.
func TestConditionOfBeforeARestoreIsWrittenAgain(t *testing.T) {
	r := newRig(t, 1)
	r.receive(unplaceable("p0", 1, "no room"))
	answer(r, func(e effect.PatchCondition) effect.Input {
		return effect.Answered{Op: e.Op, Result: effect.Done, ResourceVersion: 900}
	})
	r.begins(2, 7)
	now := r.api.now()
	r.step(r.b, effect.FactsChanged{Cluster: now, Sequence: 60, Epoch: 8, PodProgress: now.rv, PodProgressKnown: true})
	r.published = nil
	r.receive(unplaceable("p0", 2, "no room"))
	run[effect.PatchCondition](r, delivered)
	r.wantDecisions(events.DecisionCondition)
}
