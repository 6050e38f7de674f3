package claims

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/devices"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Holding is something exclusive that a pod's reservation holds: a claim that only one pod may use, or items of a
// pool.
type Holding struct {
	// Key is the key of its document; items are the held items, none for all.
	Key   string
	items []string
	// basis is the version of the document that the decision counted.
	basis ledger.Version
}

// lookups gives the embedded interface a name that its method Objects does not have.
type lookups = rule.Objects

// promisedDevices are the facts plus the promises of devices to reservations and staged attempts, which binders
// write into the cluster before the facts show them. A shard that does not know of a promise that another shard has
// just made loses the race for the node's document, or for that of a pool. It implements rule.Objects and
// devices.Memory.
type promisedDevices struct {
	lookups
	book     *deviceBook
	position state.Position
}

// Position returns the position of the facts.
func (p *promisedDevices) Position() state.Position { return p.position }

// Devices implements devices.Memory.
func (p *promisedDevices) Devices() *devices.Index { return &p.book.index }

// promisedDevices adds promises to the objects that a decision looks up.
func (b *Book) promisedDevices(to rule.Objects, facts *state.Snapshot) (*promisedDevices, error) {
	b.devices.read(facts, b.Ledger)
	if err := b.devices.problem(); err != nil {
		return nil, err
	}
	if err := b.devices.stage(slices.Collect(b.Staged()), facts); err != nil {
		return nil, err
	}
	return &promisedDevices{to, &b.devices, facts.Position()}, nil
}

// MaybeLater reports whether the pod might fit once the fate of a promise is known. No event reports that a promise
// is taken back.
func (v Supply) MaybeLater() bool { return v.promised != nil && len(v.promised.book.unseen) > 0 }

// Pick determines what must be done about the pod's claims to volumes and devices on a node; false if that is not
// known yet, an error if the node does not fit after all. The pods in gone count as gone, with the devices that only
// they have.
func (b *Book) Pick(v Supply, p *placement.Profile, t Target, gone ...*state.Pod) (Supply, bool, error) {
	if !v.Any() {
		return v, true, nil // most pods have no such claims
	}
	v, ok := v.pickVolumes(p, t.Pod, t.Node)
	if !ok {
		return v, false, fmt.Errorf("the volumes of the pod do not suit node %s, which was chosen for it", t.Node.Name)
	}
	return b.pickDevices(v, p, t, gone)
}

// Target is a pod whose claims get what they need on a node. The names of shares come from the seed, so that a
// decision that is repeated gives the same names.
type Target struct {
	Pod  *state.Pod
	Node *state.Node
	Seed uint64
}

// pickDevices is Pick of devices alone.
func (b *Book) pickDevices(v Supply, p *placement.Profile, t Target, gone []*state.Pod) (Supply, bool, error) {
	v.Devices, v.pools = nil, nil
	if v.promised == nil {
		return v, true, nil
	}
	picks, ok := p.DevicePicks(t.Pod, t.Node, v.promised, t.Seed, gone...)
	if !ok {
		return v, false, fmt.Errorf("the devices of the pod do not suit node %s, which was chosen for it", t.Node.Name)
	}
	// Opaque parameters may be large: the document of a node must have room for those of all its pods.
	inline := devices.ConfigBytes(picks) <= devices.MaxInlineConfig
	for _, pick := range picks {
		entry, err := promiseOf(pick, inline)
		if err != nil {
			return v, false, fmt.Errorf("claim %s/%s: %w", t.Pod.Namespace, pick.Claim, err)
		}
		v.Devices = append(v.Devices, entry)
	}
	for _, use := range devices.SharedPools(picks, t.Node.Name, v.promised) {
		key := ledger.KeyPool(use.Driver, use.Pool)
		if !b.caughtUp(b.Exclusive(key)) {
			return v, false, nil
		}
		v.pools = append(v.pools, Holding{key, use.Items, b.Ledger.Exclusives().Of(key).Version()})
	}
	return v, true, nil
}

// promiseOf returns a pick in the form of a reservation: with the opaque parameters of its configuration, or with
// their hashes, by which the binder finds them in the claim and its classes.
func promiseOf(pick devices.Pick, inline bool) (p ledger.DevicePick, err error) {
	p = ledger.DevicePick{Claim: pick.Claim, ClaimUID: pick.UID, ClaimRV: pick.Version}
	if allocation := pick.Allocation; allocation != nil {
		if !inline {
			allocation, p.ConfigHashes = devices.WithoutConfig(allocation)
		}
		if p.Allocation, err = allocation.Marshal(); err != nil {
			return p, fmt.Errorf("allocation: %w", err)
		}
	}
	if pick.Made == nil {
		return p, nil
	}
	if p.Spec, err = pick.Made.Claim.Spec.Marshal(); err != nil {
		return p, fmt.Errorf("spec: %w", err)
	}
	status := corev1.PodExtendedResourceClaimStatus{RequestMappings: pick.Made.Mappings, ResourceClaimName: pick.Claim}
	if p.PodStatus, err = status.Marshal(); err != nil {
		return p, fmt.Errorf("status of the pod: %w", err)
	}
	return p, nil
}

// caughtUp reports whether the facts show what became of the former holders of something exclusive.
func (b *Book) caughtUp(x ledger.ExclusiveDoc) bool {
	return b.View.TxnFacts().PodProgress() >= x.HW[ledger.KindPod] &&
		(x.HW[ledger.KindClaim] == 0 || b.View.TxnFacts().ClaimProgress() >= x.HW[ledger.KindClaim])
}

// basisCurrent reports whether a pool's document is the version that the decision counted, or that version plus this
// shard's own last transaction. (Nothing is counted of a claim.)
func (b *Book) basisCurrent(x ledger.ExclusiveDoc, h Holding) bool {
	return len(h.items) == 0 || x.Version() == h.basis ||
		b.Wrote(h.Key, h.basis.Revision, x.Revision)
}

// ErrMoved reports that something exclusive has changed since the decision, or that the facts do not show yet what
// became of its former holder.
var ErrMoved = errors.New("a claim or a pool of devices has moved since the decision")

// Take makes a reservation the holder of the given holdings, on top of the documents that are already changed. It
// returns an error if a document has a holder or no room, if the facts do not show yet what became of its former
// holder, or if the pool has changed since the decision (ErrMoved).
func (b *Book) Take(
	holdings []Holding, holder ledger.Holder, changed map[string]ledger.ExclusiveDoc,
) (held map[string]ledger.ExclusiveDoc, err error) {
	if len(holdings) == 0 {
		return nil, nil
	}
	held = map[string]ledger.ExclusiveDoc{}
	for _, h := range holdings {
		x, known := changed[h.Key]
		if !known {
			x = b.Exclusive(h.Key)
		}
		if !b.caughtUp(x) || !b.basisCurrent(x, h) {
			return nil, ErrMoved
		}
		holder.Items = h.items
		if x, err = x.AddHolder(holder); err != nil {
			return nil, err
		}
		held[x.Key] = x
	}
	return held, nil
}
