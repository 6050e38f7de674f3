package decide

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/queue/decide/memory"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// model is a specification of Core, written as simply as possible: one list of pods, searched from end to end for
// every question, and a list of everything that ever happened. It takes the core's inputs, and after each must agree
// with the core about the pool of every pod and about every offer.
type model struct {
	cfg         Config
	pods        map[string]*modelPod
	unseen      map[string]*modelPod
	live        map[string]*state.Pod
	occurrences []waiting.Occurrence
	// journalEnd returns the sequence and the revision up to which the core's journal has forgotten: the model does not
	// specify how long the journal remembers. since is the position of the facts at the last reset.
	journalEnd func() (uint64, int64)
	since      uint64

	modelWorld
	shards map[string]*modelShard
	modelLanes
	leads, caughtUp, primed bool
	// fromMemory means that the ledger has not been read since the memory.
	fromMemory bool
	serial     int
}

type modelWorld struct {
	now      time.Duration
	origin   time.Time
	facts    waiting.Position
	objects  rule.Objects
	revision int64
	owners   [ledger.Partitions]string
}

type modelShard struct {
	window int
	seen   time.Duration
}

type modelPod struct {
	pod                  *state.Pod
	pool                 waiting.Pool
	serial               int
	queued, entered      time.Duration
	flushed, quarantined bool
	modelAttempt
	modelVerdict
	modelWait
	modelHold
}

type modelAttempt struct {
	attempts, answered, lost int
	released                 int
	token, shard, lane       string
	permit                   bool
	sequence                 uint64
	early                    bool
	deadline                 time.Duration
}

type modelVerdict struct {
	kind               events.DecisionKind
	rejections, errors int
	remembered         bool
	backoffUntil       time.Duration
	plugins            []string
	verdictToken       string
	factSequence       uint64
	ledgerRevision     int64
}

type modelWait struct {
	waits       bool
	waitUntil   time.Duration
	waitVersion uint64
}

type modelHold struct {
	settling           bool
	holdRevision, gone int64
	holdProgress       uint64
	holdUntil          time.Duration
}

func newModel(cfg Config, journalEnd func() (uint64, int64)) *model {
	return &model{
		cfg: cfg, journalEnd: journalEnd, pods: map[string]*modelPod{}, unseen: map[string]*modelPod{},
		live: map[string]*state.Pod{}, shards: map[string]*modelShard{},
		modelLanes: modelLanes{lanes: map[string]*modelLane{}, lastEvent: map[string]waiting.Point{}},
	}
}

// offer is an offer that the model expects.
type offer struct{ shard, pod string }

func (m *model) step(in Input, at time.Time) {
	if m.origin.IsZero() {
		m.origin = at
	}
	m.now = max(m.now, at.Sub(m.origin))
	switch in := in.(type) {
	case FactsReset:
		m.reset(in)
	case FactsApplied:
		m.applied(in)
	case LedgerMoved:
		m.ledgerMoved(in)
	case Decided:
		for i := range in.Decisions {
			m.decided(&in.Decisions[i].Decision)
		}
		m.caughtUp = m.caughtUp || in.CaughtUp
	case Remembered:
		m.remembered(in.Memory)
	case WorkRequested:
		m.asked(in.Request)
	case Lead:
		m.leads = true
	case StepDown:
		m.leads = false
		for _, p := range m.in(waiting.PoolOffered) {
			m.free(p)
		}
	}
	m.settle()
	for _, p := range m.in(waiting.PoolOffered) {
		if p.deadline <= m.now {
			m.expired(p)
		}
	}
	for _, s := range m.shards {
		if s.seen+m.cfg.ShardTimeout <= m.now {
			s.window = 0
		}
	}
	for _, p := range m.in(waiting.PoolParked) {
		if !p.quarantined && p.entered+m.cfg.FlushAfter <= m.now {
			p.flushed = true
			m.requeue(p)
		}
	}
	for _, p := range m.in(waiting.PoolBackoff) {
		if p.ready() <= m.now {
			p.waits = false
			m.free(p)
		}
	}
	m.openLanes()
}

// in lists the pods of a pool by arrival.
func (m *model) in(pool waiting.Pool) []*modelPod {
	var list []*modelPod
	for _, p := range m.pods {
		if p.pool == pool {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *modelPod) int { return cmp.Compare(a.serial, b.serial) })
	return list
}

func (p *modelPod) ready() time.Duration {
	if p.waits {
		return max(p.waitUntil, p.backoffUntil)
	}
	return p.backoffUntil
}

func (m *model) enter(p *modelPod, pool waiting.Pool) {
	p.pool, p.entered, p.quarantined = pool, m.now, false
	p.permit = p.permit && (pool == waiting.PoolActive || pool == waiting.PoolOffered)
}

func (m *model) free(p *modelPod) {
	switch _, held := m.live[p.pod.UID]; {
	case held:
		m.enter(p, waiting.PoolHeld)
	case p.pod.Gated:
		m.enter(p, waiting.PoolGated)
	default:
		m.enter(p, waiting.PoolActive)
	}
}

func (m *model) requeue(p *modelPod) {
	if _, held := m.live[p.pod.UID]; held || p.pod.Gated || p.ready() <= m.now {
		m.free(p)
		return
	}
	m.enter(p, waiting.PoolBackoff)
}

func (m *model) woken(p *modelPod) {
	p.sequence = m.facts.Sequence
	m.requeue(p)
}

func (m *model) ours(p *state.Pod) bool {
	return m.cfg.Profiles[p.SchedulerName] != nil && p.NodeName == "" && !p.Terminal && !p.Deleting
}

func (m *model) reset(in FactsReset) {
	m.facts, m.objects, m.since = in.Position, in.Objects, in.Position.Sequence
	m.occurrences = slices.DeleteFunc(m.occurrences, func(o waiting.Occurrence) bool { return o.Revision == 0 })
	pods := byCreation(in.Pods)
	for uid := range m.pods {
		if !slices.ContainsFunc(pods, func(p *state.Pod) bool { return p.UID == uid }) {
			m.leave(uid)
		}
	}
	for _, p := range pods {
		m.shown(p)
	}
	for _, p := range m.in(waiting.PoolParked) {
		if !p.quarantined && p.factSequence < m.facts.Sequence {
			m.woken(p)
		}
	}
	m.primed = true
	m.dropUnseen()
}

func (m *model) dropUnseen() {
	maps.DeleteFunc(m.unseen, func(_ string, p *modelPod) bool { return p.factSequence <= m.facts.Sequence })
}

func (m *model) applied(in FactsApplied) {
	m.facts, m.objects = in.Position, in.Objects
	for _, o := range in.Changes.Others {
		m.changed(rule.ObjectChange(o))
	}
	for _, n := range in.Changes.Nodes {
		m.changed(rule.NodeChange(n))
	}
	for _, p := range in.Changes.Pods {
		if p.After != nil {
			m.shown(p.After)
		} else if p.Before != nil {
			m.leave(p.Before.UID)
		}
		m.changed(rule.PodChange(p))
	}
	m.dropUnseen()
}

func (m *model) leave(uid string) {
	p, ok := m.pods[uid]
	if _, held := m.live[uid]; ok && held {
		m.live[uid] = p.pod
	}
	delete(m.pods, uid)
	if ok {
		m.toLane(p, "")
	}
}

func (m *model) shown(pod *state.Pod) {
	p, known := m.pods[pod.UID]
	switch {
	case known && !m.ours(pod):
		p.pod = pod
		m.leave(pod.UID)
	case known:
		m.updated(p, pod)
	case m.ours(pod):
		m.added(pod)
	}
}

func (m *model) added(pod *state.Pod) {
	p, unseen := m.unseen[pod.UID]
	if !unseen {
		p = &modelPod{}
	}
	delete(m.unseen, pod.UID)
	m.serial++
	p.pod, p.serial, p.queued, p.sequence = pod, m.serial, m.now, m.facts.Sequence
	m.pods[pod.UID] = p
	_, held := m.live[pod.UID]
	if held {
		m.live[pod.UID] = pod
	}
	if p.waitVersion != 0 && pod.ResourceVersion >= p.waitVersion {
		p.waits = false
	}
	switch {
	case held || pod.Gated:
		m.free(p)
	case p.kind == events.DecisionUnplaceable:
		m.park(p)
	case p.kind == events.DecisionFailed:
		m.backOff(p)
		m.requeue(p)
	case p.kind == events.DecisionQuarantined:
		m.enter(p, waiting.PoolParked)
		p.quarantined = true
	default:
		m.free(p)
	}
}

func (m *model) updated(p *modelPod, pod *state.Pod) {
	old := p.pod
	if pod.ResourceVersion == old.ResourceVersion {
		return
	}
	p.pod, p.sequence = pod, m.facts.Sequence
	if _, held := m.live[pod.UID]; held {
		m.live[pod.UID] = pod
	}
	if p.waits && p.waitVersion != 0 && pod.ResourceVersion >= p.waitVersion {
		p.waits = false
	}
	change := rule.PodChange(state.PodChange{Before: old, After: pod})
	switch {
	case p.pool == waiting.PoolGated && !pod.Gated:
		m.free(p)
	case p.pool != waiting.PoolParked || !waiting.SpecMoved(old, pod):
	case p.quarantined:
		p.lost, p.token = 0, ""
		m.requeue(p)
	case m.cfg.Profiles[pod.SchedulerName].Wakes(pod, p.plugins, change):
		m.woken(p)
	}
}

// changed records what happened, and wakes the pods that it may help.
func (m *model) changed(c rule.Change) {
	listens := func(p *placement.Profile) bool { return p.AnyListens(c) }
	if !slices.ContainsFunc(slices.Collect(maps.Values(m.cfg.Profiles)), listens) {
		return
	}
	o := waiting.Occurrence{Change: c, Sequence: m.facts.Sequence, Own: !concernsOthers(c)}
	if o.Own {
		if c.OldPod == nil || c.NewPod == nil || m.pods[c.NewPod.UID] == nil || !waiting.SpecMoved(c.OldPod, c.NewPod) {
			return
		}
	}
	m.occurred(o)
}

func (m *model) occurred(o waiting.Occurrence) {
	m.occurrences = append(m.occurrences, o)
	for plugin, h := range m.lastEvent {
		if !o.Own && m.cfg.Profiles[ourScheduler].Listens(plugin, o.Change) {
			m.lastEvent[plugin] = waiting.Point{Sequence: max(h.Sequence, o.Sequence), Revision: max(h.Revision, o.Revision)}
		}
	}
	for _, p := range m.in(waiting.PoolParked) {
		if !p.quarantined && !o.Own && m.helps(o, p) {
			m.woken(p)
		}
	}
}

// helps reports whether an occurrence came after a pod's verdict and could change it.
func (m *model) helps(o waiting.Occurrence, p *modelPod) bool {
	later := o.Sequence > p.factSequence
	if o.Revision != 0 {
		later = o.Revision > p.ledgerRevision
	}
	profile := m.cfg.Profiles[p.pod.SchedulerName]
	if !later || o.Own != (waiting.ChangedPod(o.Change) == p.pod.UID) {
		return false
	}
	if o.Blind {
		return waiting.ListensBlind(profile, p.plugins, o.Change)
	}
	return profile.Wakes(p.pod, p.plugins, o.Change)
}

// remembered begins with the memory of another life of the replica.
func (m *model) remembered(known *memory.Memory) {
	m.revision, m.fromMemory = known.Ledger, true
	for _, uid := range known.Live {
		m.live[uid] = nil
	}
	for i := range known.Pods {
		e := recall(&known.Pods[i], &known.Head, 0)
		m.unseen[known.Pods[i].UID] = &modelPod{
			modelAttempt: modelAttempt{
				attempts: int(e.Attempt.Count), answered: int(e.Attempt.Answered),
				lost: int(e.Attempt.Lost), released: int(e.Attempt.Released),
			},
			modelVerdict: modelVerdict{
				kind: e.Verdict.Kind, rejections: int(e.Verdict.Rejections), errors: int(e.Verdict.Errors),
				plugins: e.Verdict.Plugins, factSequence: e.Verdict.FactSequence,
				ledgerRevision: e.Verdict.LedgerRevision, remembered: e.Verdict.Remembered,
			},
			modelWait: modelWait{waits: e.Await.On, waitUntil: m.now + m.cfg.ConditionWait, waitVersion: e.Await.Version},
		}
	}
}

func (m *model) ledgerMoved(in LedgerMoved) {
	m.revision = in.Revision
	if in.Reset {
		trusted := m.fromMemory
		for _, uid := range slices.Sorted(maps.Keys(m.live)) {
			if !slices.ContainsFunc(in.Holds, func(h Hold) bool { return h.PodUID == uid && h.Live }) {
				trusted = false
				m.vanished(Hold{PodUID: uid})
			}
		}
		m.fromMemory = false
		for _, p := range slices.Concat(slices.Collect(maps.Values(m.unseen)), slices.Collect(maps.Values(m.pods))) {
			if p.remembered && trusted {
				p.ledgerRevision = m.revision
			}
		}
		m.occurred(waiting.Occurrence{
			Change: rule.Change{Kind: events.KindPod, Actions: rule.Delete}, Blind: true, Revision: m.revision,
		})
	}
	for _, h := range in.Holds {
		if h.Live {
			m.reserved(h.PodUID)
		} else {
			m.vanished(h)
		}
	}
	if in.Owners != nil && *in.Owners != m.owners {
		m.owners = *in.Owners
		for _, p := range m.in(waiting.PoolOffered) {
			switch {
			case m.ownerOf(p) == p.shard:
			case m.shards[p.shard].seen+m.cfg.Lease/2 < m.now:
				m.expired(p)
			default:
				m.free(p)
			}
		}
	}
}

func (m *model) ownerOf(p *modelPod) string { return m.owners[waiting.PartitionOf(p.pod)] }

func (m *model) reserved(uid string) {
	p, known := m.pods[uid]
	if !known {
		if _, held := m.live[uid]; !held {
			m.live[uid] = nil
		}
		return
	}
	_, held := m.live[uid]
	m.live[uid] = p.pod
	if held {
		return
	}
	p.modelHold = modelHold{}
	p.token, p.lost, p.waits = "", 0, false
	m.enter(p, waiting.PoolHeld)
}

func (m *model) vanished(h Hold) {
	last, held := m.live[h.PodUID]
	delete(m.live, h.PodUID)
	p, known := m.pods[h.PodUID]
	switch {
	case known && held:
		p.modelHold = modelHold{settling: true, holdProgress: h.HW, gone: m.revision}
	case known:
		m.roomLeft(p.pod, m.revision)
	case !h.Bound:
		m.roomLeft(last, m.revision)
	}
}

func (m *model) roomLeft(pod *state.Pod, revision int64) {
	o := waiting.Occurrence{
		Change: rule.Change{Kind: events.KindPod, Actions: rule.Delete}, Blind: pod == nil, Revision: revision,
	}
	if pod != nil {
		was := *pod
		was.NodeName = reservedNode
		o.Change.OldPod = &was
	}
	m.occurred(o)
}

func (m *model) settle() {
	var freed []*modelPod
	for _, p := range m.in(waiting.PoolHeld) {
		behind := p.holdProgress > 0 && (!m.facts.ProgressKnown || m.facts.PodProgress < p.holdProgress)
		if p.settling && (p.holdRevision <= m.revision || m.now >= p.holdUntil) && !behind {
			freed = append(freed, p)
		}
	}
	for _, p := range freed {
		gone := p.gone
		p.modelHold = modelHold{}
		m.release(p)
		if gone != 0 {
			m.roomLeft(p.pod, gone)
		}
	}
}

func (m *model) release(p *modelPod) {
	p.released++
	p.backoffUntil = max(p.backoffUntil, m.now+m.doubled(p.released))
	m.requeue(p)
}

// doubled returns the backoff after a number of failures, by doubling.
func (m *model) doubled(failures int) time.Duration {
	d := time.Duration(0)
	for range failures {
		d = min(max(2*d, m.cfg.InitialBackoff), m.cfg.MaxBackoff)
	}
	return d
}

func (m *model) backOff(p *modelPod) {
	n := p.rejections
	if p.errors > 0 {
		n = p.errors
	}
	p.backoffUntil = m.now + m.doubled(n)
}

func (m *model) park(p *modelPod) {
	m.backOff(p)
	m.toLane(p, rejectionKey(p.pod, p.plugins))
	sequence, revision := m.journalEnd()
	missed := p.factSequence < max(sequence, m.since) || p.ledgerRevision < revision
	for _, o := range m.occurrences {
		missed = missed || m.helps(o, p)
	}
	switch {
	case missed:
		m.requeue(p)
	case p.pod.Gated:
		m.free(p)
	default:
		m.enter(p, waiting.PoolParked)
	}
}

func (m *model) decided(d *events.Decision) {
	p, known := m.pods[d.Pod.UID]
	if !known {
		g, unseen := m.unseen[d.Pod.UID]
		if !unseen {
			if !waiting.IsAnswer(d.Kind) || m.primed && d.FactSequence <= m.facts.Sequence {
				return
			}
			g = &modelPod{}
			m.unseen[d.Pod.UID] = g
		}
		p = g
	}
	if d.Kind == events.DecisionCondition {
		if p.waits && (d.Token == "" || p.verdictToken == "" || d.Token == p.verdictToken) {
			p.waitVersion = d.PodResourceVersion
			p.waits = !known || p.pod.ResourceVersion < d.PodResourceVersion
		}
		return
	}
	news := int(d.Attempt) > p.answered
	if p.pool == waiting.PoolOffered {
		news = int(d.Attempt) > p.attempts
	}
	news = news || d.Token != "" && d.Token == p.token
	if !waiting.IsAnswer(d.Kind) || !news {
		return
	}
	m.tally(p, d)
	if _, held := m.live[d.Pod.UID]; known && !held {
		p.settling = false
		m.answered(p, d)
	}
}

func (m *model) tally(p *modelPod, d *events.Decision) {
	p.attempts, p.answered = max(p.attempts, int(d.Attempt)), max(p.answered, int(d.Attempt))
	p.token, p.lost = "", 0
	if p.lane != "" {
		switch d.Kind {
		case events.DecisionPlaced:
			m.lanes[p.lane].width = min(2*m.lanes[p.lane].width, waiting.MaxLaneWidth)
		case events.DecisionUnplaceable:
			m.lanes[p.lane].width = waiting.LaneWidth
		}
	}
	p.remembered = false
	m.toLane(p, "")
	p.kind, p.verdictToken, p.factSequence, p.ledgerRevision = d.Kind, d.Token, d.FactSequence, d.LedgerRevision
	switch d.Kind {
	case events.DecisionUnplaceable:
		p.rejections, p.errors, p.plugins = p.rejections+1, 0, d.Plugins
	case events.DecisionFailed:
		p.errors, p.plugins = p.errors+1, nil
	case events.DecisionQuarantined:
		p.plugins = nil
	default:
		return
	}
	p.released, p.flushed, p.queued = 0, false, m.now
	p.modelWait = modelWait{waits: true, waitUntil: m.now + m.cfg.ConditionWait}
}

func (m *model) answered(p *modelPod, d *events.Decision) {
	switch d.Kind {
	case events.DecisionPlaced:
		if m.revision >= d.LedgerRevision {
			p.backoffUntil = m.now + m.cfg.InitialBackoff
			m.enter(p, waiting.PoolBackoff)
			return
		}
		m.enter(p, waiting.PoolHeld)
		p.settling, p.holdRevision, p.holdUntil = true, d.LedgerRevision, m.now+30*time.Second
	case events.DecisionUnplaceable:
		m.park(p)
		if l := m.lanes[p.lane]; p.factSequence >= l.FactSequence && p.ledgerRevision >= l.LedgerRevision {
			l.LaneVerdict = waiting.LaneVerdict{FactSequence: p.factSequence, LedgerRevision: p.ledgerRevision}
		}
	case events.DecisionFailed:
		m.backOff(p)
		m.requeue(p)
	case events.DecisionReleased:
		m.release(p)
	case events.DecisionQuarantined:
		m.enter(p, waiting.PoolParked)
		p.quarantined = true
	}
}

func (m *model) asked(r work.Request) {
	if r.Shard == "" {
		return
	}
	m.shards[r.Shard] = &modelShard{window: max(int(r.Window), 0), seen: m.now}
	if !m.leads {
		return
	}
	for _, p := range m.in(waiting.PoolOffered) {
		if p.shard == r.Shard && slices.Contains(r.Renew, p.token) {
			p.deadline = m.now + m.cfg.Lease
		}
		if p.shard == r.Shard && slices.Contains(r.Return, p.token) {
			m.free(p)
			p.attempts, p.token = p.attempts-1, ""
		}
	}
}

func (m *model) expired(p *modelPod) {
	p.lost++
	if p.lost < m.cfg.DeliveryLimit {
		m.free(p)
		return
	}
	p.kind, p.plugins = events.DecisionQuarantined, nil
	m.enter(p, waiting.PoolParked)
	p.quarantined = true
}

// dispatched checks the offers that were made. Active pods must have been offered in order; pods that left their
// backoff early must only have been allowed to.
func (m *model) dispatched(offers []offer) error {
	for _, o := range offers {
		p := m.pods[o.pod]
		if !m.leads || !m.caughtUp || p == nil || m.ownerOf(p) != o.shard || !m.room(o.shard, p) {
			return fmt.Errorf("offered %s to %s, which must not have it", o.pod, o.shard)
		}
		switch first := m.first(o.shard); {
		case first != nil && first != p:
			return fmt.Errorf("offered %s to %s, before %s", o.pod, o.shard, first.pod.UID)
		case first == nil && !m.mayGoEarly(o.shard, p):
			return fmt.Errorf("offered %s to %s out of %s", o.pod, o.shard, p.pool)
		}
		p.attempts++
		p.early, p.permit = p.pool == waiting.PoolBackoff, p.lane != ""
		p.token, p.shard, p.deadline = "", o.shard, m.now+m.cfg.Lease
		m.enter(p, waiting.PoolOffered)
	}
	for id := range m.shards {
		if p := m.first(id); m.leads && m.caughtUp && p != nil && m.room(id, p) {
			return fmt.Errorf("%s has room and was not offered %s", id, p.pod.UID)
		}
	}
	return nil
}

// room reports whether a shard may be offered a pod in addition to those it has leased.
func (m *model) room(shard string, p *modelPod) bool {
	s, known := m.shards[shard]
	leased := m.leased(shard)
	alone := slices.ContainsFunc(leased, func(p *modelPod) bool { return p.lost >= waiting.SuspectAfter })
	return known && !alone && len(leased) < s.window && (p.lost < waiting.SuspectAfter || len(leased) == 0)
}

func (m *model) leased(shard string) []*modelPod {
	return slices.DeleteFunc(m.in(waiting.PoolOffered), func(p *modelPod) bool { return p.shard != shard })
}

func offerOrder(a, b *modelPod) int {
	return cmp.Or(cmp.Compare(b.pod.Priority, a.pod.Priority), cmp.Compare(a.queued, b.queued),
		cmp.Compare(a.serial, b.serial))
}

// first returns the first of the active pods that a shard could be offered, nil for none.
func (m *model) first(shard string) *modelPod {
	list := slices.DeleteFunc(m.in(waiting.PoolActive), func(p *modelPod) bool {
		return m.ownerOf(p) != shard || p.lane != "" && !p.permit
	})
	if len(list) == 0 {
		return nil
	}
	return slices.MinFunc(list, offerOrder)
}

func (m *model) mayGoEarly(shard string, p *modelPod) bool {
	early := slices.DeleteFunc(m.leased(shard), func(p *modelPod) bool { return !p.early })
	if l := m.lanes[p.lane]; l != nil && (m.covered(p, l) || m.out(p.lane) >= l.width) {
		return false
	}
	return p.pool == waiting.PoolBackoff && p.errors == 0 && p.released == 0 && !p.waits &&
		p.lost < waiting.SuspectAfter &&
		len(early) < maxEarlyLeases
}
