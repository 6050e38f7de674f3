package devices

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Plugin keeps pods on nodes where the device claims that they name have their devices, or can get them.
// Continue reading at Demand, which holds a pod's claims, sorted.
//
// What 1.36 enables by default is enabled: prioritized lists, admin access, partitionable devices, consumable
// capacity, device taints, extended resources that are backed by devices, and binding conditions to the extent that
// they need no clock (the component that waits for them gives up in time and takes the devices back).
// DeviceTaintRules are disabled, as they are by default. Source: plugins/dynamicresources.
type Plugin struct {
	// compiled caches the compiled expressions of classes and claims. It does not affect results.
	compiled *cel.Cache
}

// compiledExpressions is how many expressions are cached: more than a cluster has classes.
const compiledExpressions = 128

// New is the factory. Of the arguments, bindingTimeout is for the component that waits for devices;
// filterTimeout is counted in steps here, see maxDeviceSteps.
func New(args runtime.Object) (rule.Plugin, error) {
	if _, err := rule.Args[configv1.DynamicResourcesArgs](args); err != nil {
		return nil, err
	}
	return Plugin{NewExpressions()}, nil
}

// NewExpressions returns an empty cache of expressions, safe for concurrent use.
func NewExpressions() *cel.Cache {
	return cel.NewCache(compiledExpressions, cel.Features{EnableConsumableCapacity: true})
}

// Name implements Plugin.
func (Plugin) Name() string { return names.DynamicResources }

// Admit implements Admitter. Source: dynamicresources.go PreEnqueue.
func (Plugin) Admit(pod *state.Pod, objects rule.Objects) (rejection string) {
	_, why := deviceClaims(pod, objects)
	return why + unserved(why, objects)
}

// Expects implements Expecter: it waits for claims that are created from templates once the pod exists.
func (Plugin) Expects(pod *state.Pod, objects rule.Objects) (what string) {
	if pod.Template == nil || !rule.HasDeviceClaims(&pod.Template.Spec) || unserved("no claims", objects) != "" {
		return ""
	}
	named := claimNamer(pod)
	for i := range pod.Template.Spec.ResourceClaims {
		claim := &pod.Template.Spec.ResourceClaims[i]
		if claim.ResourceClaimTemplateName == nil {
			continue // the pod's creator has to create it
		}
		name, _, err := resourceclaim.Name(named, claim)
		switch {
		case err != nil:
			return err.Error()
		case name == nil:
			continue // the pod has no such claim and needs none
		}
		if _, ok := objects.ObjectByName(events.KindResourceClaim, pod.Namespace, *name); !ok {
			return fmt.Sprintf("could not find ResourceClaim %q", pod.Namespace+"/"+*name)
		}
	}
	return ""
}

// Compile implements Plugin.
func (p Plugin) Compile(pod *state.Pod, objects rule.Objects) (rule.Compiled, error) {
	claims, why := deviceClaims(pod, objects)
	if why != "" {
		return rule.Compiled{Rejection: why + unserved(why, objects)}, nil
	}
	wish := newDeviceWish(pod, objects)
	if len(claims) == 0 && wish == nil {
		return rule.Compiled{}, nil
	}
	d := &Demand{wish: wish, outcomes: map[*corev1.Node]outcome{}}
	for _, o := range claims {
		if why, err := d.add(pod, o, objects); why != "" || err != nil {
			return rule.Compiled{Rejection: why}, err
		}
	}
	d.compiled, d.objects = p.compiled, objects
	d.quick = d.plain(p.compiled, objects)
	c := rule.Compiled{Filter: d}
	if d.prioritized() {
		c.Scorer, c.Normalize = d, rule.NormalizeToMax
	}
	return c, nil
}

// positioned is implemented by an Objects that knows up to which position its facts are complete.
type positioned interface{ Position() state.Position }

// unserved returns an addition to the reason why a claim is unusable, if the API server does not serve claims at
// all: then the facts are complete for pods but not for claims, which the queue cannot list.
func unserved(why string, objects rule.Objects) string {
	facts, ok := objects.(positioned)
	if why == "" || !ok {
		return ""
	}
	_, pods := facts.Position().Progress(events.KindPod)
	_, claims := facts.Position().Progress(events.KindResourceClaim)
	if !pods || claims {
		return ""
	}
	return " (the API server does not serve " + resourcev1.SchemeGroupVersion.String() + ")"
}

// deviceClaims returns the claims of a pod, in the order in which it names them, or why one of them is unusable
// now. Source: dynamicresources.go foreachPodResourceClaim.
func deviceClaims(pod *state.Pod, objects rule.Objects) (claims []*state.Object, why string) {
	if pod.Template == nil || !rule.HasDeviceClaims(&pod.Template.Spec) {
		return nil, ""
	}
	named := claimNamer(pod)
	for i := range pod.Template.Spec.ResourceClaims {
		name, owned, err := resourceclaim.Name(named, &pod.Template.Spec.ResourceClaims[i])
		switch {
		case err != nil:
			return nil, err.Error()
		case name == nil:
			continue // the pod has no such claim and needs none
		}
		o, ok := objects.ObjectByName(events.KindResourceClaim, pod.Namespace, *name)
		if !ok {
			return nil, fmt.Sprintf("could not find ResourceClaim %q", pod.Namespace+"/"+*name)
		}
		claim, ok := o.API.(*resourcev1.ResourceClaim)
		switch {
		case !ok:
			return nil, fmt.Sprintf("resourceclaim %q is not one", *name)
		case claim.DeletionTimestamp != nil:
			return nil, fmt.Sprintf("resourceclaim %q is being deleted", claim.Name)
		case owned:
			if err := resourceclaim.IsForPod(named, claim, false); err != nil {
				return nil, err.Error()
			}
		}
		claims = append(claims, o)
	}
	return claims, ""
}

// claimNamer returns the part of a pod that determines the names of its claims.
func claimNamer(pod *state.Pod) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: types.UID(pod.UID)},
		Status:     corev1.PodStatus{ResourceClaimStatuses: pod.Status().ResourceClaimStatuses},
	}
}

// Demand holds the requirements of a pod's device claims on a node.
type Demand struct {
	// claims holds all claims; lacking holds those that have no devices yet.
	claims  []demandedClaim
	lacking []*resourcev1.ResourceClaim
	// wish holds the extended resources that the pod requests and that devices may provide; nil for none.
	wish *wish
	// quick, if not nil, can judge most nodes; devices can judge all of them, and is created when it is first
	// needed.
	quick    *plainSearch
	devices  *search
	index    *Index // nil until it is needed, see known
	compiled *cel.Cache
	objects  rule.Objects
	// outcomes caches results by node: they are expensive and needed more than once.
	outcomes map[*corev1.Node]outcome
}

// demandedClaim is one claim as its object describes it.
type demandedClaim struct {
	claim   *resourcev1.ResourceClaim
	version uint64
	// nodes selects the nodes where its devices can be used; nil for all.
	nodes *nodeaffinity.NodeSelector
	// reserved reports whether the claim already lists the pod as a user.
	reserved bool
	// failed reports whether one of its devices will never be ready.
	failed bool
}

// add classifies a claim, or returns why the pod has to wait. Source: dynamicresources.go PreFilter.
func (d *Demand) add(pod *state.Pod, o *state.Object, objects rule.Objects) (why string, err error) {
	claim, ok := o.API.(*resourcev1.ResourceClaim)
	if !ok {
		return "", fmt.Errorf("object %s is a %T, want a ResourceClaim", o.Name, o.API)
	}
	c := demandedClaim{claim: claim, version: o.ResourceVersion, reserved: reservedFor(claim, pod.UID)}
	allocation := claim.Status.Allocation
	switch {
	case allocation != nil && !resourceclaim.CanBeReserved(claim) && !c.reserved:
		return "resourceclaim in use", nil
	case allocation != nil && allocation.NodeSelector != nil:
		if c.nodes, err = nodeaffinity.NewNodeSelector(allocation.NodeSelector); err != nil {
			return "", err
		}
	case allocation == nil:
		if m, ok := objects.(Memory); ok && m.Devices().Allocating(o.UID) {
			return fmt.Sprintf("resource claim %s/%s is in the process of being allocated", o.Namespace, o.Name), nil
		}
		if why, err := lacksClass(claim, objects); why != "" || err != nil {
			return why, err
		}
		d.lacking = append(d.lacking, claim)
	}
	if allocation != nil {
		_, problem := Ready(claim)
		c.failed = problem != ""
	}
	d.claims = append(d.claims, c)
	return "", nil
}

func reservedFor(claim *resourcev1.ResourceClaim, podUID string) bool {
	for i := range claim.Status.ReservedFor {
		if string(claim.Status.ReservedFor[i].UID) == podUID {
			return true
		}
	}
	return false
}

// lacksClass returns which class of a claim's requests does not exist.
func lacksClass(claim *resourcev1.ResourceClaim, objects rule.Objects) (why string, err error) {
	for i := range claim.Spec.Devices.Requests {
		r := &claim.Spec.Devices.Requests[i]
		if r.Exactly == nil && len(r.FirstAvailable) == 0 {
			return fmt.Sprintf("resource claim %s/%s, request %s: unknown request type",
				claim.Namespace, claim.Name, r.Name), nil
		}
		if why, err = requestLacksClass(r, objects); why != "" || err != nil {
			return why, err
		}
	}
	return "", nil
}

func requestLacksClass(r *resourcev1.DeviceRequest, objects rule.Objects) (why string, err error) {
	if r.Exactly != nil {
		return noDeviceClass(r.Exactly.DeviceClassName, r.Name, objects)
	}
	for i := range r.FirstAvailable {
		sub := &r.FirstAvailable[i]
		if why, err = noDeviceClass(sub.DeviceClassName, r.Name+"/"+sub.Name, objects); why != "" || err != nil {
			return why, err
		}
	}
	return "", nil
}

func noDeviceClass(class, request string, objects rule.Objects) (why string, err error) {
	if class == "" {
		return "", fmt.Errorf("request %s: unsupported request type", request)
	}
	if _, ok := objects.ObjectByName(events.KindDeviceClass, "", class); !ok {
		return fmt.Sprintf("request %s: device class %s does not exist", request, class), nil
	}
	return "", nil
}

// outcome is the result of the rule for one node.
type outcome struct {
	// Why is empty for a node that passes.
	Why string
	// allocations are in the order of lacking, followed by that of made. open reports that devices are available
	// but have not been selected yet.
	allocations []resourcev1.AllocationResult
	open        bool
	// made is the claim to be created, nil for none.
	made *MadeClaim
}

// Judge evaluates one node. Source: dynamicresources.go Filter.
func (d *Demand) Judge(node *state.Node) outcome {
	if o, known := d.outcomes[node.Object]; known {
		return o
	}
	o := d.lack(node)
	if o.Why == "" && d.elsewhere(node.Object) {
		o.Why = "resourceclaim not available on the node"
	}
	d.outcomes[node.Object] = o
	return o
}

// lack evaluates whether a node has the devices that are still lacking. It leaves open which devices those are
// where that is not needed to decide it.
func (d *Demand) lack(node *state.Node) (o outcome) {
	lacking := d.lacking
	if d.wish != nil {
		if o.made, o.Why = d.wish.on(node); o.Why != "" {
			return o
		}
		if o.made != nil {
			lacking = append(slices.Clone(lacking), o.made.Claim)
		}
	}
	if len(lacking) == 0 {
		return o
	}
	if d.quick != nil {
		if enough, known := d.quick.suffices(node.Name); known {
			o.open = enough
			if !enough {
				o.Why = CannotAllocate
			}
			return o
		}
	}
	if d.devices == nil {
		var err error
		if d.devices, err = newDeviceSearch(d.compiled, d.objects, d.known()); err != nil {
			return outcome{Why: err.Error()}
		}
	}
	o.allocations, o.Why = d.devices.allocate(node.Object, lacking)
	return o
}

// settle is judge, but also selects the devices.
func (d *Demand) settle(node *state.Node) outcome {
	o := d.Judge(node)
	if !o.open || o.Why != "" {
		return o
	}
	search, err := d.quick.search(node.Object, d.objects)
	if err != nil {
		return outcome{Why: err.Error()}
	}
	o.open = false
	o.allocations, o.Why = search.allocate(node.Object, d.lacking)
	d.outcomes[node.Object] = o
	return o
}

// elsewhere reports whether a claim has devices that cannot be used on a node, or on any node.
func (d *Demand) elsewhere(node *corev1.Node) bool {
	for i := range d.claims {
		c := &d.claims[i]
		if c.failed || c.nodes != nil && !c.nodes.Match(node) {
			return true
		}
	}
	return false
}

// Check implements Filter.
func (d *Demand) Check(n *state.NodeInfo) rule.Code {
	if d.quick != nil {
		if enough, known := d.quick.suffices(n.Node.Name); known {
			if !enough || d.elsewhere(n.Node.Object) {
				return rule.UnschedulableAndUnresolvable
			}
			return rule.Success
		}
	}
	if d.Judge(n.Node).Why != "" {
		return rule.UnschedulableAndUnresolvable
	}
	return rule.Success
}

// Explain implements Filter.
func (d *Demand) Explain(n *state.NodeInfo) []string {
	return []string{d.Judge(n.Node).Why}
}

// prioritized reports whether a request has alternatives, of which earlier ones are preferred.
func (d *Demand) prioritized() bool {
	for i := range d.claims {
		for j := range d.claims[i].claim.Spec.Devices.Requests {
			if len(d.claims[i].claim.Spec.Devices.Requests[j].FirstAvailable) > 0 {
				return len(d.lacking) > 0
			}
		}
	}
	return false
}

// Score implements Scorer. Source: dynamicresources.go computeScore.
func (d *Demand) Score(n *state.NodeInfo) int64 {
	fresh := d.Judge(n.Node).allocations
	var score int64
	for i := range d.claims {
		allocation := d.claims[i].claim.Status.Allocation
		if allocation == nil && len(fresh) > 0 {
			allocation, fresh = &fresh[0], fresh[1:]
		}
		if allocation != nil {
			score += preference(d.claims[i].claim, allocation)
		}
	}
	return score
}

// preference returns more points for earlier alternatives.
func preference(claim *resourcev1.ResourceClaim, allocation *resourcev1.AllocationResult) (points int64) {
	taken := map[string]bool{}
	for i := range allocation.Devices.Results {
		taken[allocation.Devices.Results[i].Request] = true
	}
	for i := range claim.Spec.Devices.Requests {
		r := &claim.Spec.Devices.Requests[i]
		for j := range r.FirstAvailable {
			if taken[resourceclaim.CreateSubRequestRef(r.Name, r.FirstAvailable[j].Name)] {
				points += int64(resourcev1.FirstAvailableDeviceRequestMaxSize - j)
			}
		}
	}
	return points
}
