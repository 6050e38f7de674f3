package decide

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// devices is what a pod has to do with devices beyond the rules about nodes. Most pods have none
// of it.
type devices struct {
	promised *promisedDevices // nil for a pod that names no claims to devices
	// picks are what the binder has to write before the bind, pools what the pod holds of pools
	// that several nodes reach, once a node has been chosen.
	picks []ledger.DevicePick
	pools []holding
}

// holding is something exclusive that the pod's reservation holds.
type holding struct {
	key   string
	items []string
	// basis is the version of the document which the decision counted.
	basis ledger.Version
}

// lookups gives the embedded interface a name that its method Objects does not have.
type lookups = placement.Objects

// promisedDevices are the facts with what reservations and staged attempts have been promised of
// devices, which binders write into the cluster before the facts show it. Who does not know of a
// promise that another shard has just made loses the node's document, or that of a pool. It
// implements placement.Objects and placement.DeviceMemory.
type promisedDevices struct {
	lookups
	book     *deviceBook
	position state.Position
}

// Position is that of the facts.
func (p *promisedDevices) Position() state.Position { return p.position }

// Devices implements placement.DeviceMemory.
func (p *promisedDevices) Devices() *placement.DeviceIndex { return &p.book.index }

// promisedDevices adds promises to what a decision looks up.
func (c *Core) promisedDevices(to placement.Objects, facts *state.Snapshot) (*promisedDevices, error) {
	c.devices.read(facts, c.ledger)
	if err := c.devices.problem(); err != nil {
		return nil, err
	}
	if err := c.devices.stage(slices.Collect(c.attempts.onNodes()), facts); err != nil {
		return nil, err
	}
	return &promisedDevices{to, &c.devices, facts.Position()}, nil
}

// maybeLater: the pod would perhaps fit if it were known what becomes of a promise. No event tells
// of one that is taken back.
func (d devices) maybeLater() bool { return d.promised != nil && len(d.promised.book.unseen) > 0 }

// promisesPending says that a pod found no node, and that this is no verdict.
const promisesPending = "devices are still promised to other pods: "

// pickSupplies says what has to be done about the pod's claims to volumes and devices on a node;
// false if that cannot be told yet, an error if the node will not do after all. Some pods are taken for
// gone, with the devices that they alone have.
func (c *Core) pickSupplies(
	v volumes, p *placement.Profile, s supplied, gone ...*state.Pod,
) (volumes, bool, error) {
	node := s.node
	v, ok := v.pickVolumes(p, s.pod, node)
	if !ok {
		return v, false, fmt.Errorf("the volumes of the pod do not suit node %s, which was chosen for it", node.Name)
	}
	var err error
	v.devices, ok, err = c.pickDevices(v.devices, p, s, gone)
	return v, ok, err
}

// supplied is a pod that gets what its claims need on a node. The names of shares come from the seed.
type supplied struct {
	pod  *state.Pod
	node *state.Node
	seed uint64
}

// pickDevices says what has to be done about the pod's claims to devices on a node; false if the
// node will not do after all, or cannot be told yet.
func (c *Core) pickDevices(
	d devices, p *placement.Profile, s supplied, gone []*state.Pod,
) (devices, bool, error) {
	d.picks, d.pools = nil, nil
	if d.promised == nil {
		return d, true, nil
	}
	picks, ok := p.DevicePicks(s.pod, s.node, d.promised, s.seed, gone...)
	if !ok {
		return d, false, fmt.Errorf("the devices of the pod do not suit node %s, which was chosen for it", s.node.Name)
	}
	inline := placement.ConfigBytes(picks) <= placement.MaxInlineConfig
	for _, pick := range picks {
		entry, err := promiseOf(pick, inline)
		if err != nil {
			return d, false, fmt.Errorf("claim %s/%s: %w", s.pod.Namespace, pick.Claim, err)
		}
		d.picks = append(d.picks, entry)
	}
	for _, use := range placement.SharedPools(picks, s.node.Name, d.promised) {
		key := ledger.KeyPool(use.Driver, use.Pool)
		if !c.caughtUp(c.exclusive(key)) {
			return d, false, nil
		}
		d.pools = append(d.pools, holding{key, use.Items, c.ledger.Exclusive(key).Version()})
	}
	return d, true, nil
}

// promiseOf is a pick as a reservation has it: with the opaque parameters of its configuration, or with
// their hashes, by which the binder finds them in the claim and its classes.
func promiseOf(pick placement.DevicePick, inline bool) (p ledger.DevicePick, err error) {
	p = ledger.DevicePick{Claim: pick.Claim, ClaimUID: pick.UID, ClaimRV: pick.Version}
	if allocation := pick.Allocation; allocation != nil {
		if !inline {
			allocation, p.ConfigHashes = placement.WithoutConfig(allocation)
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

// caughtUp tells whether the facts show what became of those who held something exclusive.
func (c *Core) caughtUp(x ledger.ExclusiveDoc) bool {
	return c.view.PodProgress() >= x.HW[ledger.KindPod] &&
		(x.HW[ledger.KindClaim] == 0 || c.view.ClaimProgress() >= x.HW[ledger.KindClaim])
}

// sees tells whether a pool's document is the one that the decision counted, or that plus this
// shard's own last flight. (Of a claim nothing is counted.)
func (c *Core) sees(x ledger.ExclusiveDoc, h holding) bool {
	return len(h.items) == 0 || x.Version() == h.basis ||
		c.written[h.key] == step{from: h.basis.Revision, to: x.Revision}
}
