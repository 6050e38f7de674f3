package commit

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement/devices"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/pkg/telemetry/alpha"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// claims gives devices to the device claims of pods, and takes them back.
type claims struct {
	client kubernetes.Interface
	logger *slog.Logger
	clock  clock.PassiveClock
	// waits measures how long pods wait for their devices.
	waits *conditionWaits
}

// prepare writes to the device claims of a pod before the bind: the devices they get, and that the pod uses
// them. Done means that all of it is written and every device is ready. Waiting means that it is written, and a
// driver reports that a device is not ready yet. ClaimMade means that a missing claim was created, and nothing is
// written to it yet. Refused means that the claims cannot get these devices.
//
// Order, for every claim: read it, unless it is known; protect it with the finalizer; write the devices and the pod
// into its status. Each write carries UID and resourceVersion, the first of them the one that the decision used; see
// txns.SettledClaims. It may be repeated at any time, by any binder. A crash after the last write leaves a claim
// that has its devices, and the next binder continues. A crash after the first leaves a claim whose version has
// moved, and the next binder takes the reservation back (settleClaims), so that the pod is placed again.
func (c *claims) prepare(ctx context.Context, e effect.Bind) effect.Answered {
	waiting := ""
	var wait conditionWait
	for _, pick := range e.Devices.Picks {
		// A claim that the ledger has no UID of is created, and nothing else is done before the ledger has it.
		if pick.Unmade() {
			return c.makeClaim(ctx, e, pick)
		}
		claim, answer := c.prepareClaim(ctx, e, pick)
		if answer.Result == effect.Done {
			wait.add(claim)
			ready, problem := devices.Ready(claim)
			switch {
			case problem != "":
				answer = refusal("%s", problem)
				c.waits.ended(e, wait, alpha.ConditionsFailed)
			case !ready:
				waiting = "the devices of claim " + pick.Claim + " are not ready yet"
			}
		}
		if answer.Result != effect.Done {
			answer.Op, answer.Conditions = e.Op, wait.conditioned != nil
			c.logger.Info("allocating devices", "pod", ref(e.Pod), "node", e.NodeName, "claim", pick.Claim,
				"result", answer.Result.String(), telemetry.KeyError, answer.Problem)
			return answer
		}
	}
	conditions := wait.conditioned != nil
	if waiting != "" {
		c.waits.began(e, wait)
		return effect.Answered{Op: e.Op, Result: effect.Waiting, Problem: waiting, Conditions: conditions}
	}
	c.waits.ended(e, wait, alpha.ConditionsMet)
	return effect.Answered{Op: e.Op, Result: effect.Done, Conditions: conditions}
}

// prepareClaim writes one claim. If the answer is Done, it returns the resulting claim. A claim is read unless the
// facts show it at the version that the decision used. One without devices gets those of the pick (allocate). One with
// devices must have exactly those, if the pick names any, and they must be usable on the node; then only the pod is
// added to its consumers.
func (c *claims) prepareClaim(
	ctx context.Context, e effect.Bind, pick ledger.DevicePick,
) (*resourcev1.ResourceClaim, effect.Answered) {
	claim, answer := e.Devices.Known[pick.Claim], effect.Answered{Result: effect.Done}
	if claim == nil {
		claim, answer = c.deviceClaim(ctx, e.Pod.Namespace, pick)
	}
	switch {
	case answer.Result != effect.Done:
		return nil, answer
	case claim == nil:
		return nil, refusal("claim %s is gone", pick.Claim)
	case claim.DeletionTimestamp != nil:
		return nil, refusal("claim %s is being deleted", pick.Claim)
	case claim.Status.Allocation == nil && len(pick.Allocation) == 0:
		return nil, refusal("claim %s has lost its devices", pick.Claim)
	case claim.Status.Allocation == nil:
		return c.allocate(ctx, e, pick, claim)
	}
	if len(pick.Allocation) > 0 {
		promised, err := allocationOf(pick)
		if err != nil || !sameDevices(promised, claim.Status.Allocation) {
			return nil, refusal("claim %s has different devices now", pick.Claim)
		}
	}
	if s := claim.Status.Allocation.NodeSelector; s != nil {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: e.NodeName, Labels: e.Devices.NodeLabels}}
		if match, err := nodeaffinity.NewLazyErrorNodeSelector(s).Match(node); err != nil || !match {
			return nil, refusal("the devices of claim %s cannot be used on node %s", pick.Claim, e.NodeName)
		}
	}
	if slices.ContainsFunc(claim.Status.ReservedFor, uses(e.Pod)) {
		return claim, effect.Answered{Result: effect.Done}
	}
	return c.patchClaim(ctx, claim, map[string]any{"reservedFor": consumersWith(claim, e.Pod)})
}

// allocate gives a claim its devices. It requires the claim to be at the version that the decision saw: that keeps a
// binder that was suspended from giving away devices which have since been promised to other pods.
func (c *claims) allocate(
	ctx context.Context, e effect.Bind, pick ledger.DevicePick, claim *resourcev1.ResourceClaim,
) (*resourcev1.ResourceClaim, effect.Answered) {
	allocation, err := allocationOf(pick)
	switch {
	case err != nil:
		return nil, refusal("devices of claim %s cannot be decoded: %v", pick.Claim, err)
	case versionOf(claim) != pick.ClaimRV:
		return nil, refusal("claim %s has changed since the decision", pick.Claim)
	}
	if err := devices.PutConfigBack(allocation, pick.ConfigHashes, &claim.Spec, e.Devices.Classes); err != nil {
		return nil, refusal("claim %s: %v", pick.Claim, err)
	}
	// The finalizer comes first: a claim that has devices must not be deleted before they are given back.
	if !slices.Contains(claim.Finalizers, resourcev1.Finalizer) {
		var answer effect.Answered
		if claim, answer = c.protect(ctx, claim); claim == nil {
			return nil, answer
		}
	}
	allocation.AllocationTimestamp = ptr.To(metav1.NewTime(c.clock.Now()))
	return c.patchClaim(ctx, claim,
		map[string]any{"allocation": allocation, "reservedFor": consumersWith(claim, e.Pod)})
}

// settleClaims ends the involvement of a reservation that is taken back with the claims it was to give devices: from
// here on, none of its writes succeeds. It gives back devices that a claim got from the reservation, unless another
// pod uses them or kept is set, which is for a pod that was bound after all; a claim that was created for the pod's
// resources is then deleted. Claims with other devices are left alone. The returned resourceVersion is the one from
// which on facts about claims show all this. Order per claim: the devices are removed first, then the finalizer; a
// claim whose version has not moved since the decision gets the finalizer just for that. It may be repeated at any
// time.
func (c *claims) settleClaims(
	ctx context.Context, e effect.FencePod, kept bool,
) (version uint64, answer effect.Answered) {
	if !kept {
		c.waits.timedOut(e.Pod.UID)
	}
	for _, pick := range e.Claims {
		if len(pick.Allocation) == 0 || pick.Unmade() {
			continue
		}
		claim, answer := c.deviceClaim(ctx, e.Pod.Namespace, pick)
		if answer.Result == effect.Done && claim != nil {
			claim, answer = c.settleClaim(ctx, e, pick, claim, kept)
		}
		if answer.Result != effect.Done {
			return 0, answer
		}
		if claim == nil {
			continue
		}
		version = max(version, versionOf(claim))
		if len(pick.Spec) > 0 && claim.Status.Allocation == nil {
			if answer := c.deleteClaim(ctx, claim); answer.Result != effect.Done {
				return 0, answer
			}
		}
	}
	return version, effect.Answered{Result: effect.Done}
}

// settleClaim is settleClaims for one claim, as read. It returns the claim as it is afterwards, or nil and the answer
// if a write has failed.
func (c *claims) settleClaim(
	ctx context.Context, e effect.FencePod, pick ledger.DevicePick, claim *resourcev1.ResourceClaim, kept bool,
) (*resourcev1.ResourceClaim, effect.Answered) {
	done := effect.Answered{Result: effect.Done}
	if claim.Status.Allocation != nil {
		promised, err := allocationOf(pick)
		if kept || err != nil || !sameDevices(promised, claim.Status.Allocation) {
			return claim, done
		}
		// If other pods use the claim too, it keeps its devices, and only this pod is removed from its consumers.
		others := slices.DeleteFunc(slices.Clone(claim.Status.ReservedFor), uses(e.Pod))
		switch {
		case len(others) == len(claim.Status.ReservedFor) && len(others) > 0:
			return claim, done
		case len(others) > 0:
			return c.patchClaim(ctx, claim, map[string]any{"reservedFor": others})
		}
		freed := map[string]any{"allocation": nil, "reservedFor": nil, "devices": nil}
		var answer effect.Answered
		if claim, answer = c.patchClaim(ctx, claim, freed); claim == nil {
			return nil, answer
		}
	}
	switch {
	case slices.Contains(claim.Finalizers, resourcev1.Finalizer):
		return c.unprotect(ctx, claim)
	case versionOf(claim) <= pick.ClaimRV:
		// The claim's version has to move. Its annotations may have no room for a mark, but there is room for the
		// finalizer, which is added and removed again.
		protected, answer := c.protect(ctx, claim)
		if protected == nil {
			return nil, answer
		}
		return c.unprotect(ctx, protected)
	}
	return claim, done
}

// protect adds the finalizer of claims that have devices.
func (c *claims) protect(
	ctx context.Context, claim *resourcev1.ResourceClaim,
) (*resourcev1.ResourceClaim, effect.Answered) {
	finalizers := append(slices.Clone(claim.Finalizers), resourcev1.Finalizer)
	return c.changeClaim(ctx, claim, map[string]any{"finalizers": finalizers})
}

// unprotect removes that finalizer.
func (c *claims) unprotect(
	ctx context.Context, claim *resourcev1.ResourceClaim,
) (*resourcev1.ResourceClaim, effect.Answered) {
	rest := slices.DeleteFunc(slices.Clone(claim.Finalizers), func(f string) bool { return f == resourcev1.Finalizer })
	return c.changeClaim(ctx, claim, map[string]any{"finalizers": rest})
}

// deviceClaim reads a claim. It returns nil if this incarnation of the claim is gone.
func (c *claims) deviceClaim(
	ctx context.Context, namespace string, pick ledger.DevicePick,
) (*resourcev1.ResourceClaim, effect.Answered) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	claim, err := c.client.ResourceV1().ResourceClaims(namespace).Get(ctx, pick.Claim, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && string(claim.UID) != pick.ClaimUID:
		return nil, effect.Answered{Result: effect.Done}
	case err != nil:
		return nil, failed(err)
	}
	return claim, effect.Answered{Result: effect.Done}
}

// changeClaim patches the metadata of a claim at the version that was read.
func (c *claims) changeClaim(
	ctx context.Context, read *resourcev1.ResourceClaim, meta map[string]any,
) (*resourcev1.ResourceClaim, effect.Answered) {
	meta["uid"], meta["resourceVersion"] = read.UID, read.ResourceVersion
	return c.sendClaim(ctx, read, map[string]any{"metadata": meta})
}

// patchClaim patches the status of a claim at the version that was read.
func (c *claims) patchClaim(
	ctx context.Context, read *resourcev1.ResourceClaim, status map[string]any,
) (*resourcev1.ResourceClaim, effect.Answered) {
	return c.sendClaim(ctx, read, map[string]any{"metadata": guard(&read.ObjectMeta), "status": status}, "status")
}

// sendClaim sends a patch; it returns nil and the answer if that fails. After a conflict the caller reads again.
func (c *claims) sendClaim(
	ctx context.Context, read *resourcev1.ResourceClaim, patch map[string]any, subresources ...string,
) (*resourcev1.ResourceClaim, effect.Answered) {
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, refusal("claim %s: %v", read.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	claim, err := c.client.ResourceV1().ResourceClaims(read.Namespace).Patch(
		ctx, read.Name, types.MergePatchType, body, metav1.PatchOptions{}, subresources...)
	if err != nil {
		return nil, written(err)
	}
	return claim, effect.Answered{Result: effect.Done}
}

// allocationOf decodes the devices that the ledger promises to a claim.
func allocationOf(pick ledger.DevicePick) (*resourcev1.AllocationResult, error) {
	a := &resourcev1.AllocationResult{}
	if err := a.Unmarshal(pick.Allocation); err != nil {
		return nil, fmt.Errorf("allocation of claim %s: %w", pick.Claim, err)
	}
	return a, nil
}

// sameDevices reports whether two allocations contain the same devices for the same requests.
func sameDevices(a, b *resourcev1.AllocationResult) bool {
	return slices.EqualFunc(a.Devices.Results, b.Devices.Results,
		func(x, y resourcev1.DeviceRequestAllocationResult) bool {
			return x.Request == y.Request && x.Driver == y.Driver && x.Pool == y.Pool && x.Device == y.Device &&
				ptr.Equal(x.ShareID, y.ShareID)
		})
}

// versionOf returns the claim's resourceVersion, which the ledger keeps as a number.
func versionOf(claim *resourcev1.ResourceClaim) uint64 {
	version, err := strconv.ParseUint(claim.ResourceVersion, 10, 64)
	if err != nil {
		return 0 // no API server writes this
	}
	return version
}

// uses returns a predicate that reports whether an entry of status.reservedFor is the pod's.
func uses(pod events.PodRef) func(resourcev1.ResourceClaimConsumerReference) bool {
	return func(u resourcev1.ResourceClaimConsumerReference) bool { return string(u.UID) == pod.UID }
}

// consumersWith returns the claim's status.reservedFor with the pod added.
func consumersWith(claim *resourcev1.ResourceClaim, pod events.PodRef) []resourcev1.ResourceClaimConsumerReference {
	return append(slices.Clone(claim.Status.ReservedFor), resourcev1.ResourceClaimConsumerReference{
		Resource: "pods", Name: pod.Name, UID: types.UID(pod.UID),
	})
}
