package scale

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	shardcore "github.com/berth-scheduler/berth/services/scheduler/decide"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// epoch is where virtual time begins for the cores; any time would do.
var epoch = time.Unix(1_800_000_000, 0)

// engine is the real core of a shard.
type engine struct {
	world *world
	id    int
	core  *shardcore.Core
	// base is how many facts there were before the first pod's.
	base     uint64
	folder   *feed.Folder
	searches searches
	// inHand are the offers that the core has not answered, by pod.
	inHand map[int32]offer
}

// searches counts them; it implements engine.Laps.
type searches struct{ n int }

// Begin implements engine.Laps.
func (s *searches) Begin(string) { s.n++ }

// Lap implements engine.Laps.
func (s *searches) Lap(string, string, rule.Code) {}

func newEngine(w *world, id int, start beginning) (*engine, error) {
	profile, err := placement.NewProfile(placement.DefaultProfile(schedulerName))
	if err != nil {
		return nil, err
	}
	e := &engine{world: w, id: id, base: uint64(len(start.facts)), folder: feed.NewFolder(), inHand: map[int32]offer{}}
	self := memberName(id)
	e.core = shardcore.New(shardcore.Config{
		Shard: self, Profiles: map[string]*placement.Profile{schedulerName: profile}, Window: window, HomeFirst: true,
		Laps: &e.searches,
		Home: func(members []string, nodeUID string) bool { return membership.Home(members, nodeUID) == self },
	})
	reset := replica.Batch{Reset: true, KVs: start.ledger, Events: ledger.EventBatch{Revision: start.at}}
	steps, err := e.folder.FoldAll(follow.Batch{Reset: true, Barrier: e.base}, follow.Batch{Facts: start.facts})
	if err != nil {
		return nil, fmt.Errorf("start of %s: %w", self, err)
	}
	first := e.core.Step(step.Input{Ledger: []replica.Batch{reset}, Facts: steps}, epoch)
	if first.Fatal != nil {
		return nil, fmt.Errorf("start of %s: %w", self, first.Fatal)
	}
	if !e.core.Ready() {
		return nil, fmt.Errorf("start of %s: it is not ready after all facts: it holds no partition", self)
	}
	return e, nil
}

// step implements decider.
func (e *engine) step(in input, now time.Duration) (output, error) {
	core := step.Input{Beat: in.beat, Turns: in.turns}
	facts, err := e.facts(in.facts[0])
	if err != nil {
		return output{}, err
	}
	if len(facts) > 0 {
		if core.Facts, err = e.folder.FoldAll(follow.Batch{Facts: facts}); err != nil {
			return output{}, fmt.Errorf("shard %d: %w", e.id, err)
		}
	}
	for _, r := range in.ledgers[0] {
		core.Ledger = append(core.Ledger, replica.Batch{Events: r.events})
	}
	if len(in.offers) > 0 {
		core.Offers = []work.OfferBatch{e.offers(in.offers)}
	}
	for _, a := range in.answers {
		core.Results = append(core.Results, step.Result{ID: a.id, Txn: a.result})
	}
	before := e.searches.n
	done := e.core.Step(core, epoch.Add(now))
	if done.Fatal != nil {
		return output{}, fmt.Errorf("shard %d: %w", e.id, done.Fatal)
	}
	out := output{more: done.More, soon: done.Soon, turns: done.Turns, tried: e.searches.n - before}
	if err := e.outcomes(done, &out); err != nil {
		return output{}, err
	}
	if done.Commit != nil {
		c, err := e.commit(*done.Commit)
		out.commits = []decided{c}
		return out, err
	}
	return out, nil
}

// facts makes the core's facts of those of the stream. The shards share the facts, which the first of them makes.
func (e *engine) facts(list []fact) ([]events.SequencedFact, error) {
	var facts []events.SequencedFact
	for _, f := range list {
		made, err := e.world.encoded(f)
		if err != nil {
			return nil, err
		}
		facts = append(facts, events.SequencedFact{Sequence: e.core.Position().Sequence + uint64(len(facts)) + 1, Fact: made})
	}
	return facts, nil
}

// encoded is a fact as the log has it.
func (w *world) encoded(f fact) (events.Fact, error) {
	if made, ok := w.facts[f.version]; ok {
		return made, nil
	}
	made, err := factOf(events.KindPod, w.fleet.pod(f.pod, f.node), f.version)
	w.facts[f.version] = made
	return made, err
}

func (e *engine) offers(list []offer) work.OfferBatch {
	b := work.OfferBatch{Queue: "queue", Term: 1}
	for _, o := range list {
		e.inHand[o.pod] = o
		uid := podUID(e.world.Seed, int(o.pod))
		b.Offers = append(b.Offers, work.Offer{
			Pod:       events.PodRef{UID: uid, Namespace: namespace, Name: uid},
			Partition: ledger.PartitionOf(uid), Token: tokenOf(o).String(), Attempt: o.attempt,
			FactSequence: e.base + uint64(o.facts), LeaseMillis: int32(time.Minute.Milliseconds()),
		})
	}
	return b
}

// tokenOf returns a token that no other attempt has.
func tokenOf(o offer) ledger.Token { return ledger.Token(uint64(o.pod+1)<<16 | uint64(o.attempt)) }

// podOf is whose token it is.
func podOf(token string) (int32, error) {
	t, err := ledger.ParseToken(token)
	return int32(uint64(t)>>16) - 1, err
}

// outcomes sorts what the core has decided.
func (e *engine) outcomes(done step.Output, out *output) error {
	for _, d := range done.Decisions {
		pod, err := podOf(d.Token)
		if err != nil {
			return err
		}
		switch d.Kind {
		case events.DecisionPlaced:
			out.placed = append(out.placed, pod)
		case events.DecisionUnplaceable, events.DecisionFailed:
			out.failed = append(out.failed, e.inHand[pod])
		default:
			return fmt.Errorf("shard %d decided %q about pod %d: want placed, unplaceable or failed", e.id, d.Kind, pod)
		}
		delete(e.inHand, pod)
	}
	if done.Request == nil {
		return nil
	}
	for _, token := range done.Request.Return {
		pod, err := podOf(token)
		if err != nil {
			return err
		}
		out.returned = append(out.returned, e.inHand[pod])
		delete(e.inHand, pod)
	}
	return nil
}

// commit reads from a transaction which places it makes.
func (e *engine) commit(c step.Commit) (decided, error) {
	d := decided{id: c.ID, commit: commit{txn: c.Txn}}
	for _, p := range c.Txn.Puts {
		uid, ok := strings.CutPrefix(p.Key, ledger.PrefixNode)
		if !ok {
			continue
		}
		doc, err := codec.DecodeNodeDoc(ledger.KV{Key: p.Key, Value: p.Value})
		if err != nil {
			return d, err
		}
		var node int32
		if _, err := fmt.Sscanf(uid, "n-%d", &node); err != nil {
			return d, fmt.Errorf("document %s: %w", p.Key, err)
		}
		for _, entry := range doc.Entries {
			pod, err := podOf(entry.Token.String())
			if err != nil {
				return d, err
			}
			if !e.world.pods[pod].reserved {
				d.places = append(d.places, place{pod, node})
			}
		}
	}
	return d, nil
}
