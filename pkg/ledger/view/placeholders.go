package view

import (
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state"
)

// placeholderPrefix is the prefix of the UIDs under which placeholders count. No object has such a UID.
const placeholderPrefix = "placeholder "

// placeholderKind is how rules about other pods see a placeholder: as something that no rule selects.
var placeholderKind = &state.PodClass{}

// PlaceholderUID returns the UID under which a placeholder counts.
func PlaceholderUID(token ledger.Token) string { return placeholderPrefix + token.String() }

// placeholdersOf returns the UIDs under which a document's placeholders count.
func placeholdersOf(d ledger.NodeDoc) []string {
	var out []string
	for i := range d.Entries {
		if d.Entries[i].Role == ledger.RoleMove {
			out = append(out, placeholderPrefix+d.Entries[i].Token.String())
		}
	}
	return out
}

// keptPlaces are the placeholders that count.
type keptPlaces struct {
	// byOwner are their tokens, by the owner of the pods they are for.
	byOwner map[string][]ledger.Token
	owners  map[ledger.Token]string
	// taken are those whose place a staged pod takes.
	taken map[ledger.Token]bool
}

func newKeptPlaces(taken map[ledger.Token]bool) keptPlaces {
	if taken == nil {
		taken = map[ledger.Token]bool{}
	}
	return keptPlaces{byOwner: map[string][]ledger.Token{}, owners: map[ledger.Token]string{}, taken: taken}
}

// note updates the index for what counts under a placeholder's UID, and on which node; pod is nil if nothing does.
func (k *keptPlaces) note(uid, node string, pod *state.Pod, plans *replica.Plans) {
	text, is := strings.CutPrefix(uid, placeholderPrefix)
	if !is {
		return
	}
	token, err := ledger.ParseToken(text)
	if err != nil {
		return
	}
	if owner, known := k.owners[token]; known {
		rest := slices.DeleteFunc(k.byOwner[owner], func(t ledger.Token) bool { return t == token })
		if k.byOwner[owner] = rest; len(rest) == 0 {
			delete(k.byOwner, owner)
		}
		delete(k.owners, token)
	}
	if pod == nil || node == "" {
		return
	}
	_, e, _ := plans.Owner(ledger.PlanID(token, false))
	owner := e.Replacement.Owner
	k.owners[token] = owner
	k.byOwner[owner] = append(k.byOwner[owner], token)
}

// OwnerOf returns the UID of the object that recreates a pod when it is deleted: its controller or, as some
// controllers do not mark themselves as such, its only owner. It is empty if there is none. It is only as
// trustworthy as the namespace, because the pod's author writes it.
func OwnerOf(p *state.Pod) string {
	if p.Template == nil {
		return ""
	}
	if ref := metav1.GetControllerOfNoCopy(p.Template); ref != nil {
		return string(ref.UID)
	}
	if len(p.Template.OwnerReferences) == 1 {
		return string(p.Template.OwnerReferences[0].UID)
	}
	return ""
}

// revisionLabels name the template that a pod was created from, within its owner: Deployments set the first,
// StatefulSets and DaemonSets the second.
var revisionLabels = []string{appsv1.DefaultDeploymentUniqueLabelKey, appsv1.ControllerRevisionHashLabelKey}

// ReplacementOf describes the pods that may replace this one: those of its owner and its template. If the owner
// does not name templates, they are the pods that run the same containers. (Whether a pod fits in the place is
// checked when it takes the place over.) It returns false if no owner recreates the pod.
func ReplacementOf(p *state.Pod) (ledger.Replacement, bool) {
	owner := OwnerOf(p)
	if owner == "" {
		return ledger.Replacement{}, false
	}
	for _, label := range revisionLabels {
		if revision := p.Template.Labels[label]; revision != "" {
			return ledger.Replacement{Owner: owner, Template: revision}, true
		}
	}
	d := xxhash.New()
	for i := range p.Template.Spec.Containers {
		c := &p.Template.Spec.Containers[i]
		_, _ = d.WriteString(c.Name + "=" + c.Image + "\n") // a hash never fails
	}
	return ledger.Replacement{Owner: owner, Template: "runs-" + ledger.Token(d.Sum64()).String()}, true
}
