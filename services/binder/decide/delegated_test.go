package decide

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// delegated returns a rig with a reservation of p0 on n0 whose bind is left to a plugin.
func delegated(t *testing.T) (*rig, ledger.Entry) {
	r := newRig(t, 2)
	r.shards[0].facts, r.shards[0].docs = len(r.api.history)-1, len(r.ledger.history)
	if !r.place(0, 0) {
		t.Fatal("the shard could not place p0 on n0")
	}
	d := r.doc()
	d.Entries[0].Delegated = true
	if !r.replace(d) {
		t.Fatal("not marked")
	}
	r.showDocs(r.b, len(r.ledger.history))
	r.quiet("the bind is a plugin's")
	return r, r.doc().Entries[0]
}

// receiveFromShard delivers what the shard reports about the plugin's bind.
func (r *rig) receiveFromShard(e ledger.Entry, kind events.DecisionKind, change func(*events.Decision)) {
	r.Helper()
	d := events.Decision{Kind: kind, Pod: about("p0"), Token: e.Token.String(), Attempt: 1, LedgerRevision: 1}
	change(&d)
	r.receive(d)
}

func (r *rig) pluginBinds(node string) {
	r.api.changePod("p0-uid", func(p *corev1.Pod) { p.Spec.NodeName = node })
}

func byPlugin(d *events.Decision) { d.Plugins = []string{"Tickets"} }

func asReported(*events.Decision) {}

func brokenBind(d *events.Decision) { d.NodeUID, d.Message = "n0-uid", "running Bind plugin: no glue" }

// scheduled requires that the bind is reported once, to the log and to users.
func (r *rig) scheduled() {
	r.Helper()
	if d := r.wantDecisions(events.DecisionBound)[0]; d.NodeName != "n0" {
		r.Errorf("bound to %q, want n0", d.NodeName)
	}
	events := 0
	for _, e := range r.reported {
		if e.Reason == "Scheduled" {
			events++
		}
	}
	if events != 1 {
		r.Errorf("%d events that it was scheduled, want 1", events)
	}
}

func TestPluginBinds(t *testing.T) {
	for _, says := range []func(*events.Decision){nil, byPlugin} {
		r, e := delegated(t)
		if says != nil {
			r.receiveFromShard(e, events.DecisionPlaced, says)
		}
		r.wait(r.limits.BindDeadline + time.Second)
		r.quiet("the plugin has its time")
		r.pluginBinds("n0")
		r.see()
		r.wait(time.Second)
		r.scheduled()
		r.wait(10 * time.Second)
		if why := run[effect.Amend](r, delivered).Why; why != "hand-over" {
			t.Errorf("%s, want the hand-over", why)
		}
	}
}

// A place that is wanted back is left to the plugin as well.
func TestPluginBindsWhatIsWanted(t *testing.T) {
	r, _ := delegated(t)
	d := r.doc()
	d.Entries[0].Wanted = true
	if !r.replace(d) {
		t.Fatal("not wanted")
	}
	r.showDocs(r.b, len(r.ledger.history))
	r.wait(20 * time.Second)
	r.quiet("it may be at it")
}

func TestPluginLeavesTheBind(t *testing.T) {
	r, e := delegated(t)
	r.wait(20 * time.Second)
	r.receiveFromShard(e, events.DecisionPlaced, asReported)
	run[effect.Bind](r, delivered)
	r.scheduled()
}

func TestPluginFailsToBind(t *testing.T) {
	r, e := delegated(t)
	r.receiveFromShard(e, events.DecisionFailed, brokenBind)
	r.expectFence("no glue")
	r.see()
	r.wait(time.Second)
	condition := run[effect.PatchCondition](r, delivered).Condition
	if condition.Reason != corev1.PodReasonSchedulerError || condition.Message != "running Bind plugin: no glue" {
		t.Errorf("%+v, want the plugin's error", condition)
	}
}

// Whatever the plugin reports, the pod shows whether it is bound.
func TestPluginFailsAndHasBound(t *testing.T) {
	r, e := delegated(t)
	r.pluginBinds("n0")
	r.receiveFromShard(e, events.DecisionFailed, brokenBind)
	for range 3 {
		if err := r.perform(r.b, 0, delivered); err != nil {
			t.Fatal(err)
		}
	}
	r.scheduled()
	r.see()
	r.wait(time.Second)
	r.quiet("a pod that is bound gets no condition")
}

func TestPluginThatNeverBinds(t *testing.T) {
	for reason, says := range map[string]func(*events.Decision){
		"no plugin has bound it within": nil, "after plugin Tickets had said so": byPlugin,
	} {
		r, e := delegated(t)
		if says != nil {
			r.receiveFromShard(e, events.DecisionPlaced, says)
		}
		r.wait(r.limits.Delegated - time.Second)
		r.quiet("the plugin has its time")
		r.wait(2 * time.Second)
		r.expectFence(reason)
	}
}

func TestPluginBindsElsewhere(t *testing.T) {
	r, _ := delegated(t)
	r.pluginBinds("n7")
	r.see()
	r.wait(time.Second)
	r.wantDecisions()
}

// A shard that sees the bind first hands the reservation over: the binder reports the bind when its own facts show
// it.
func TestPluginsBindIsHandedOverBeforeItIsSeen(t *testing.T) {
	for _, bound := range []bool{true, false} {
		r, _ := delegated(t)
		if bound {
			r.pluginBinds("n0")
		} else {
			r.api.deletePod("p0-uid")
		}
		next, changed := txns.Finish(r.doc(), viewFacts{r.api.now()})
		if !changed || !r.replace(next) {
			t.Fatal("not handed over")
		}
		r.showDocs(r.b, len(r.ledger.history))
		r.wait(time.Second)
		r.wantDecisions()
		r.see()
		r.wait(time.Second)
		if bound {
			r.scheduled()
		} else {
			r.wantDecisions()
		}
		if n := r.b.core.reservations.Stats().Unreported; n != 0 {
			t.Errorf("%d are remembered", n)
		}
	}
}
