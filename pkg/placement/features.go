package placement

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// nodeDeclaredFeatures keeps pods off nodes whose kubelet does not declare a feature they need. Source:
// plugins/nodedeclaredfeatures.
type nodeDeclaredFeatures struct{}

// RulesMinor is the minor version of Kubernetes 1 whose scheduling rules these are.
const RulesMinor = 36

// featureVersion is the Kubernetes version whose features are distinguished: features that every kubelet of that
// version has need no declaration.
const featureVersion = "1.36.3"

type featureFilter struct {
	reason
	needs nodedeclaredfeatures.FeatureSet
}

// Name implements Plugin.
func (nodeDeclaredFeatures) Name() string { return NodeDeclaredFeatures }

// Compile implements Plugin.
func (nodeDeclaredFeatures) Compile(pod *state.Pod, _ Objects) (Compiled, error) {
	needs, err := featuresOf(pod)
	if err != nil || needs.IsEmpty() {
		return Compiled{}, err
	}
	return Compiled{Filter: featureFilter{"node(s) didn't match Pod's required features", needs}}, nil
}

func featuresOf(pod *state.Pod) (nodedeclaredfeatures.FeatureSet, error) {
	info := &nodedeclaredfeatures.PodInfo{Spec: &pod.Template.Spec}
	return nodedeclaredfeatures.DefaultFramework.InferForPodScheduling(info, version.MustParseGeneric(featureVersion))
}

// Check implements Filter.
func (f featureFilter) Check(n *state.NodeInfo) Code {
	match, err := nodedeclaredfeatures.DefaultFramework.MatchNode(f.needs, n.Node.Object)
	if err != nil || !match.IsMatch {
		return UnschedulableAndUnresolvable
	}
	return Success
}

// Events implements Plugin.
func (nodeDeclaredFeatures) Events() []Event {
	return []Event{{events.KindNode, Add | UpdateNodeDeclaredFeature}, {events.KindPod, Update}}
}

// Hint implements Plugin.
func (nodeDeclaredFeatures) Hint(pod *state.Pod, c Change) bool {
	if c.Kind == events.KindNode {
		return c.OldNode == nil ||
			!slices.Equal(c.OldNode.Object.Status.DeclaredFeatures, c.NewNode.Object.Status.DeclaredFeatures)
	}
	if !c.isOf(pod) || c.OldPod == nil {
		return false
	}
	before, err := featuresOf(c.OldPod)
	if err != nil {
		return true
	}
	after, err := featuresOf(c.NewPod)
	return err != nil || !after.Equal(before)
}

func (nodeDeclaredFeatures) interest(*state.Pod) Interest { return Interest{Nodes: everything} }

// onlyTraits reports whether the filter reads only traits of a node.
func (featureFilter) onlyTraits() bool { return true }
