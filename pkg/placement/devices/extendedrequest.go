package devices

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// extendedRequest holds the extended resources that a pod requests and that devices may provide. Which of them
// need devices depends on the node: a node that lists the resource (a device plugin does) provides it itself.
type extendedRequest struct {
	pod *state.Pod
	// resources are those that devices back; unbacked are the others whose names devices could back.
	resources []Backed
	unbacked  []string
	// existing is the claim that has already been created for the pod, if it may be used, and version is its
	// version.
	existing *resourcev1.ResourceClaim
	version  uint64
	// claims caches the claims to create, by the resources that a node lacks.
	claims map[string]*MadeClaim
}

// newExtendedRequest returns the extended resources of a pod that devices may provide, nil if there are none.
func newExtendedRequest(pod *state.Pod, objects rule.Objects) *extendedRequest {
	resources := BackedResources(pod.Requests, objects)
	if len(resources) == 0 {
		return nil
	}
	w := &extendedRequest{pod: pod, resources: resources, claims: map[string]*MadeClaim{}}
	for name, amount := range pod.Requests.Extended {
		known := slices.ContainsFunc(resources, func(b Backed) bool { return b.Name == name })
		if amount > 0 && MayBeDevices(name) && !known {
			w.unbacked = append(w.unbacked, name)
		}
	}
	name := MadeClaimName(pod.Name, pod.UID)
	if o, ok := objects.ObjectByName(events.KindResourceClaim, pod.Namespace, name); ok {
		claim, ok := o.API.(*resourcev1.ResourceClaim)
		if ok && IsMadeFor(claim, pod.UID) && claim.Status.Allocation == nil && claim.DeletionTimestamp == nil {
			w.existing, w.version = claim, o.ResourceVersion
		}
	}
	return w
}

// claimOn returns the claim that a pod needs on a node, nil for none, or why the node is rejected. Source:
// extendeddynamicresources.go filterExtendedResources.
func (w *extendedRequest) claimOn(node *state.Node) (claim *MadeClaim, why string) {
	listed := node.Allocatable.Extended
	for _, name := range w.unbacked {
		// A resource that the node lists with an amount of zero is left to NodeResourcesFit, which may be
		// configured to ignore it.
		if _, ok := node.Object.Status.Allocatable[corev1.ResourceName(name)]; !ok {
			return nil, "cannot fit resource"
		}
	}
	var key strings.Builder
	var lacking []Backed
	for _, r := range w.resources {
		if listed[r.Name] == 0 {
			lacking = append(lacking, r)
			key.WriteString(r.Name + "\n")
		}
	}
	if len(lacking) == 0 {
		return nil, ""
	}
	claim, known := w.claims[key.String()]
	if !known {
		claim = makeClaim(w.pod, lacking)
		w.claims[key.String()] = claim
	}
	return claim, ""
}

// pick returns the claim to be created, with its devices. An existing claim with the same spec is reused: an
// earlier attempt may have created it and then failed.
func (w *extendedRequest) pick(made *MadeClaim, fresh *resourcev1.AllocationResult, seed uint64) Pick {
	pick := Pick{Claim: made.Claim.Name, Allocation: fresh.DeepCopy(), Made: made}
	if w.existing != nil && equality.Semantic.DeepEqual(w.existing.Spec, made.Claim.Spec) {
		pick.UID, pick.Version = string(w.existing.UID), w.version
	}
	nameShares(pick.Allocation, w.pod.UID, seed)
	return pick
}
