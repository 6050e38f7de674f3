package commit

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement/volumes"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// annotationBoundByController marks a volume that was not bound by its user, so that the controller may undo it.
// Source: component-helpers/storage/volume.
const annotationBoundByController = "pv.kubernetes.io/bound-by-controller"

// volumeBinder prepares the volumes of pods.
type volumeBinder struct {
	client kubernetes.Interface
	logger *slog.Logger
}

// prepare makes the changes to the pod's claims that are required before the bind, and checks how far the
// controllers are with them. Done means that every claim finally has its volume. Waiting means that everything is
// written, and a volume is still missing. Refused means that the claims will not get these volumes.
//
// Order: for every claim, read it, read its volume, and write the one of them that must be written, guarded by UID
// and resourceVersion as read. It may be repeated at any time, by any binder: what is written already is left alone.
// A crash between two writes leaves claims some of which have their volume or node; the next binder of the partition
// writes the rest. A reservation that is given up leaves a volume that waits for its claim, or a claim that names a
// node: the pod is next placed where they are, as with kube-scheduler.
func (v *volumeBinder) prepare(ctx context.Context, e effect.Bind) effect.Answered {
	waiting := ""
	for _, pick := range e.Volumes.Picks {
		p := preparation{volumeBinder: v, bind: e, pick: pick}
		answer := p.claim(ctx)
		switch answer.Result {
		case effect.Done:
		case effect.Waiting:
			waiting = answer.Problem
		default:
			answer.Op = e.Op
			v.logger.Info("binding volume", "pod", ref(e.Pod), "node", e.NodeName, "claim", pick.Claim,
				"volume", pick.Volume, "result", answer.Result.String(), telemetry.KeyError, answer.Problem)
			return answer
		}
	}
	if waiting != "" {
		return effect.Answered{Op: e.Op, Result: effect.Waiting, Problem: waiting}
	}
	return effect.Answered{Op: e.Op, Result: effect.Done}
}

// preparation is the work on one claim.
type preparation struct {
	*volumeBinder
	bind effect.Bind
	pick ledger.VolumePick
}

// refusal returns the answer Refused with a sentence for people. The reservation is taken back then.
func refusal(format string, args ...any) effect.Answered {
	return effect.Answered{Result: effect.Refused, Problem: fmt.Sprintf(format, args...)}
}

// claim reads the claim and makes the write that it still needs. A claim that had its volume when the pod was placed
// needs none. Any other needs either the volume of the pick (bindVolume) or a new one (selectNode), and is done when
// the controllers have bound it, which they record in the annotation volumes.AnnotationBindCompleted.
func (p preparation) claim(ctx context.Context) effect.Answered {
	read, cancel := context.WithTimeout(ctx, readTimeout)
	claims := p.client.CoreV1().PersistentVolumeClaims(p.bind.Pod.Namespace)
	claim, err := claims.Get(read, p.pick.Claim, metav1.GetOptions{})
	cancel()
	switch {
	case apierrors.IsNotFound(err):
		return refusal("claim %s is gone", p.pick.Claim)
	case err != nil:
		return failed(err)
	case p.pick.ClaimUID != "" && string(claim.UID) != p.pick.ClaimUID:
		return refusal("claim %s was deleted and recreated since the pod was placed", claim.Name)
	case p.pick.HasVolume:
		return effect.Answered{Result: effect.Done}
	case claim.Spec.VolumeName != "" && p.pick.Volume != "" && claim.Spec.VolumeName != p.pick.Volume:
		return refusal("claim %s has volume %s, not %s", claim.Name, claim.Spec.VolumeName, p.pick.Volume)
	}
	if p.pick.Volume != "" {
		if answer := p.bindVolume(ctx, claim); answer.Result != effect.Done {
			return answer
		}
	} else if answer := p.selectNode(ctx, claim); answer.Result != effect.Done {
		return answer
	}
	if claim.Spec.VolumeName == "" || !metav1.HasAnnotation(claim.ObjectMeta, volumes.AnnotationBindCompleted) {
		return effect.Answered{Result: effect.Waiting, Problem: "claim " + claim.Name + " has no volume yet"}
	}
	return p.reachable(ctx, claim)
}

// bindVolume binds the volume to the claim. It writes the volume's claimRef, as kube-scheduler does
// (volumebinding/binder.go); the volume controller completes the bind in the claim. A user may have reserved the volume
// for the claim by a claimRef without UID: that is completed, without the annotation by which the controller may undo a
// bind. A reference that this binder has seen written and that is gone was undone by the controller.
func (p preparation) bindVolume(ctx context.Context, claim *corev1.PersistentVolumeClaim) effect.Answered {
	volume, answer := p.volume(ctx, p.pick.Volume)
	if volume == nil {
		return answer
	}
	taken := volume.Spec.ClaimRef
	switch {
	case taken != nil && taken.UID == claim.UID:
		return effect.Answered{Result: effect.Done}
	case taken != nil && (taken.UID != "" || taken.Namespace != claim.Namespace || taken.Name != claim.Name):
		return refusal("volume %s is bound to claim %s/%s", volume.Name, taken.Namespace, taken.Name)
	case taken == nil && p.bind.Volumes.Written:
		return refusal("volume %s was released from claim %s", volume.Name, claim.Name)
	}
	meta := guard(&volume.ObjectMeta)
	if taken == nil {
		meta.Annotations = map[string]string{annotationBoundByController: "yes"}
	}
	body, err := json.Marshal(map[string]any{
		"metadata": meta,
		"spec": map[string]any{"claimRef": corev1.ObjectReference{
			APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name,
			UID: claim.UID, ResourceVersion: claim.ResourceVersion,
		}},
	})
	if err != nil {
		return refusal("%v", err)
	}
	write, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	_, err = p.client.CoreV1().PersistentVolumes().Patch(
		write, volume.Name, types.MergePatchType, body, metav1.PatchOptions{})
	return written(err)
}

// selectNode requests a new volume for the claim on the pod's node. It writes the annotation that provisioners act on.
// One that cannot provide a volume on that node removes the annotation again, so that a missing one which this binder
// has seen written is a refusal.
func (p preparation) selectNode(ctx context.Context, claim *corev1.PersistentVolumeClaim) effect.Answered {
	if claim.Spec.VolumeName != "" {
		return effect.Answered{Result: effect.Done}
	}
	switch selected := claim.Annotations[volumes.AnnotationSelectedNode]; {
	case selected == p.bind.NodeName:
		return effect.Answered{Result: effect.Done}
	case selected != "":
		return refusal("a volume for claim %s is being provisioned for node %s", claim.Name, selected)
	case p.bind.Volumes.Written:
		return refusal("no volume could be provisioned for claim %s", claim.Name)
	}
	meta := guard(&claim.ObjectMeta)
	meta.Annotations = map[string]string{volumes.AnnotationSelectedNode: p.bind.NodeName}
	body, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return refusal("%v", err)
	}
	write, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	_, err = p.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(
		write, claim.Name, types.MergePatchType, body, metav1.PatchOptions{})
	return written(err)
}

// reachable checks that the volume that the claim has got can be used on the node.
func (p preparation) reachable(ctx context.Context, claim *corev1.PersistentVolumeClaim) effect.Answered {
	volume, answer := p.volume(ctx, claim.Spec.VolumeName)
	if volume == nil {
		return answer
	}
	if a := volume.Spec.NodeAffinity; a != nil && a.Required != nil {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: p.bind.Volumes.NodeLabels}}
		if match, err := nodeaffinity.NewLazyErrorNodeSelector(a.Required).Match(node); err != nil || !match {
			return refusal("volume %s of claim %s cannot be used on node %s", volume.Name, claim.Name, p.bind.NodeName)
		}
	}
	return effect.Answered{Result: effect.Done}
}

// volume reads a volume; it returns nil and the answer if that fails.
func (p preparation) volume(ctx context.Context, name string) (*corev1.PersistentVolume, effect.Answered) {
	read, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	volume, err := p.client.CoreV1().PersistentVolumes().Get(read, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, refusal("volume %s is gone", name)
	case err != nil:
		return nil, failed(err)
	}
	return volume, effect.Answered{}
}

// guardedMeta makes the API server refuse a change of another incarnation, or of a version other than the one read.
type guardedMeta struct {
	UID             types.UID         `json:"uid"`
	ResourceVersion string            `json:"resourceVersion"`
	Annotations     map[string]string `json:"annotations,omitempty"`
}

// guard returns the metadata of a patch that applies only to the object as read.
func guard(read *metav1.ObjectMeta) guardedMeta {
	return guardedMeta{UID: read.UID, ResourceVersion: read.ResourceVersion}
}

// written returns the answer to a write. After a conflict the caller reads again.
func written(err error) effect.Answered {
	if err == nil {
		return effect.Answered{Result: effect.Done}
	}
	return failed(err)
}
