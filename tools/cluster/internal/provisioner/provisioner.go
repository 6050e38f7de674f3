package provisioner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/tools/cluster/internal/poll"
)

const (
	// selectedNode is the annotation with which a scheduler names the node for a volume.
	selectedNode = "volume.kubernetes.io/selected-node"
	// provisionedBy is the annotation with the maker of a volume.
	provisionedBy = "pv.kubernetes.io/provisioned-by"
	// madeFor says on which node a volume is.
	madeFor = "berth.dev/made-for"
	// ParameterFail is the parameter of a class whose volumes cannot be made.
	ParameterFail = "fail"
)

// Provisioner makes volumes for the claims of classes that name it.
type Provisioner struct {
	// Name is the provisioner of storage classes.
	Name   string
	Client kubernetes.Interface
	Logger *slog.Logger
}

// Run makes volumes until ctx ends. It continues when the cluster cannot be reached.
func (p Provisioner) Run(ctx context.Context) { poll.Run(ctx, p.Logger, p.pass) }

// pass looks at everything once.
func (p Provisioner) pass(ctx context.Context) error {
	v, err := p.look(ctx)
	if err != nil || len(v.classes) == 0 {
		return err
	}
	failed := errors.Join(p.publish(ctx, v), p.reclaim(ctx, v))
	claims, err := p.Client.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return errors.Join(failed, fmt.Errorf("list claims: %w", err))
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if claim.Spec.StorageClassName == nil || claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil {
			continue
		}
		if class := v.classes[*claim.Spec.StorageClassName]; class != nil {
			if err := p.serve(ctx, claim, class, v); err != nil {
				failed = errors.Join(failed, fmt.Errorf("claim %s/%s: %w", claim.Namespace, claim.Name, err))
			}
		}
	}
	return failed
}

// look reads the cluster, if there are classes to serve.
func (p Provisioner) look(ctx context.Context) (view, error) {
	v := view{classes: map[string]*storagev1.StorageClass{}}
	classes, err := p.Client.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return v, fmt.Errorf("list storage classes: %w", err)
	}
	for i := range classes.Items {
		if c := &classes.Items[i]; c.Provisioner == p.Name {
			v.classes[c.Name] = c
		}
	}
	if len(v.classes) == 0 {
		return v, nil
	}
	nodes, err := p.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return v, fmt.Errorf("list nodes: %w", err)
	}
	volumes, err := p.Client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return v, fmt.Errorf("list volumes: %w", err)
	}
	v.nodes, v.volumes = nodes.Items, volumes.Items
	return v, nil
}

// serve makes the volume of one claim, if it is time.
func (p Provisioner) serve(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, v view,
) error {
	node := claim.Annotations[selectedNode]
	waits := class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	switch {
	case waits && node == "":
		return nil
	case class.Parameters[ParameterFail] != "":
		return p.fail(ctx, claim)
	}
	volume := p.volume(claim, class)
	if waits {
		volume.Spec.NodeAffinity = onlyOn(v.hostname(node))
		volume.Annotations[madeFor] = node
	}
	_, err := p.Client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err == nil {
		p.Logger.Info("made", "volume", volume.Name, "claim", claim.Namespace+"/"+claim.Name, "node", node)
	}
	return err
}

// fail gives a claim back to the scheduler, as provisioners do that cannot make a volume on the
// selected node.
func (p Provisioner) fail(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	claim = claim.DeepCopy()
	delete(claim.Annotations, selectedNode)
	_, err := p.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		return nil // it is seen again
	}
	return err
}

func (p Provisioner) volume(
	claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass,
) *corev1.PersistentVolume {
	reclaimPolicy := corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		reclaimPolicy = *class.ReclaimPolicy
	}
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pvc-" + string(claim.UID), Annotations: map[string]string{provisionedBy: p.Name},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:         corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes:      claim.Spec.AccessModes,
			VolumeMode:       claim.Spec.VolumeMode,
			StorageClassName: class.Name,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeReclaimPolicy: reclaimPolicy,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: p.Name, VolumeHandle: string(claim.UID)},
			},
		},
	}
	return v
}

// onlyOn lets a volume be used on the node with a host name.
func onlyOn(hostname string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{hostname}},
		},
	}}}}
}
