package devices

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Plugin keeps pods on nodes where the device claims that they name have their devices, or can get them. Continue
// reading at Demand, which holds a pod's claims, sorted.
//
// Enabled are prioritized lists (KEP-4816), admin access (KEP-5018), partitionable devices (KEP-4815), consumable
// capacity (KEP-5075), device taints and the rules that set them (KEP-5055), attributes with lists of values
// (KEP-5491), extended resources that are backed by devices (KEP-5004), and binding conditions (KEP-5007) to the
// extent that they need no clock: the component that waits for them gives up in time and takes the devices back.
// Devices that use resources of the node (KEP-5517) are refused, see mapped. Source: plugins/dynamicresources.
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
	return cel.NewCache(compiledExpressions,
		cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
}

// Name implements Plugin.
func (Plugin) Name() string { return names.DynamicResources }

// Admit implements Admitter. It rejects a pod one of whose claims does not exist, belongs to another pod or is
// being deleted. Source: dynamicresources.go PreEnqueue.
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

// Compile implements Plugin. It classifies the claims in their order; the first one for which the pod has to wait
// rejects the pod on all nodes. The rule does not apply to a pod without claims and without resources that
// devices back. It scores only if a request has alternatives (Demand.prioritized). Source: dynamicresources.go
// PreFilter, PreScore.
func (p Plugin) Compile(pod *state.Pod, objects rule.Objects) (rule.Compiled, error) {
	claims, why := deviceClaims(pod, objects)
	if why != "" {
		return rule.Compiled{Rejection: why + unserved(why, objects)}, nil
	}
	wish := newExtendedRequest(pod, objects)
	if len(claims) == 0 && wish == nil {
		return rule.Compiled{}, nil
	}
	d := &Demand{
		extended: wish, compiled: p.compiled, objects: objects, outcomes: map[*corev1.Node]outcome{},
	}
	for _, o := range claims {
		if why, err := d.add(pod, o, objects); why != "" || err != nil {
			return rule.Compiled{Rejection: why}, err
		}
	}
	d.fast = d.plainSearch(p.compiled, objects)
	c := rule.Compiled{Filter: d}
	if d.prioritized() {
		c.Scorer, c.Normalize = d, rule.NormalizeToMax
	}
	return c, nil
}
