//go:build e2e

package e2e_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// diskProvisioner is the name under which the cluster's driver makes volumes.
const diskProvisioner = "disk.example.com"

// Pods start with their volumes, where these can be used, and no two have one that is for one.
func TestVolumes(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.provisioner()
	s.up(harness.UpConfig{Shards: 4, Binders: 2})
	for i, test := range []struct {
		name string
		run  func(*stack, string)
	}{
		{"volumes of nodes", localVolumes},
		{"volumes that are made for a node", madeVolumes},
		{"volumes that cannot be made", failedVolumes},
		{"claims for one pod", claimForOne},
		{"a claim that comes later", lateClaim},
		{"an ephemeral volume", ephemeralVolume},
	} {
		if !t.Run(test.name, func(t *testing.T) {
			inner := *s
			inner.T = t
			test.run(&inner, inner.namespace(fmt.Sprintf("volumes-%d", i)))
			inner.audit()
		}) {
			return
		}
	}
}

// provisioner makes volumes until the test ends.
func (s *stack) provisioner() {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), programs.Cluster,
		"provision", "--dir", s.cluster.Dir, "--name", diskProvisioner)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	s.must(cmd.Start())
	s.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
}

func (s *stack) class(name, provisioner string, mode storagev1.VolumeBindingMode, parameters map[string]string) {
	s.Helper()
	_, err := s.client.StorageV1().StorageClasses().Create(s.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode, Parameters: parameters,
	}, metav1.CreateOptions{})
	s.must(err)
}

func claimSpec(class string, mode corev1.PersistentVolumeAccessMode) corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{mode},
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		},
	}
}

func (s *stack) claim(ns, name, class string, mode corev1.PersistentVolumeAccessMode) {
	s.Helper()
	_, err := s.client.CoreV1().PersistentVolumeClaims(ns).Create(s.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: claimSpec(class, mode),
	}, metav1.CreateOptions{})
	s.must(err)
}

// withClaim has a pod use a claim, named like the pod if name is empty.
func withClaim(name string) podOption {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: cmp.Or(name, p.Name)},
		}})
	}
}

// diskNodes makes nodes for one test.
func (s *stack) diskNodes(ns string, n int) {
	s.Helper()
	var specs []nodeSpec
	for i := range n {
		name := fmt.Sprintf("%s-%d", ns, i)
		specs = append(specs, nodeSpec{name: name, labels: map[string]string{lab: ns, corev1.LabelHostname: name}})
	}
	s.addNodes(specs...)
}

// claimsSuit checks that every pod's claim has a volume of its own, which can be used on the
// pod's node.
func (s *stack) claimsSuit(pods []corev1.Pod) {
	s.Helper()
	owners := map[string]string{}
	for _, pod := range pods {
		for _, claim := range s.claimsOf(&pod) {
			if claim.Status.Phase != corev1.ClaimBound {
				s.Errorf("pod %s was bound before its claim %s, which is %s", pod.Name, claim.Name, claim.Status.Phase)
				continue
			}
			volume, err := s.client.CoreV1().PersistentVolumes().Get(s.Context(), claim.Spec.VolumeName, metav1.GetOptions{})
			s.must(err)
			if other, taken := owners[volume.Name]; taken {
				s.Errorf("pods %s and %s have volume %s", other, pod.Name, volume.Name)
			}
			owners[volume.Name] = pod.Name
			if at := homeOf(volume); at != "" && at != pod.Spec.NodeName {
				s.Errorf("pod %s is on node %s, its volume on %s", pod.Name, pod.Spec.NodeName, at)
			}
		}
	}
}

// homeOf is the node of a volume that can be used on one alone.
func homeOf(v *corev1.PersistentVolume) string {
	if v.Spec.NodeAffinity == nil {
		return ""
	}
	return v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
}

func (s *stack) claimsOf(pod *corev1.Pod) (claims []*corev1.PersistentVolumeClaim) {
	s.Helper()
	for _, v := range pod.Spec.Volumes {
		name := pod.Name + "-" + v.Name
		if v.PersistentVolumeClaim != nil {
			name = v.PersistentVolumeClaim.ClaimName
		} else if v.Ephemeral == nil {
			continue
		}
		claim, err := s.client.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(s.Context(), name, metav1.GetOptions{})
		s.must(err)
		claims = append(claims, claim)
	}
	return claims
}

// Every node has two volumes, and as many pods come at once as there are volumes.
func localVolumes(s *stack, ns string) {
	const nodes, each = 6, 2
	s.diskNodes(ns, nodes)
	s.class("local", "kubernetes.io/no-provisioner", storagev1.VolumeBindingWaitForFirstConsumer, nil)
	for i := range nodes * each {
		node := fmt.Sprintf("%s-%d", ns, i%nodes)
		_, err := s.client.CoreV1().PersistentVolumes().Create(s.Context(), &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("local-%d", i)},
			Spec: corev1.PersistentVolumeSpec{
				Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				StorageClassName:       "local",
				PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/mnt"}},
				NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
						{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
					}}},
				}},
			},
		}, metav1.CreateOptions{})
		s.must(err)
	}
	pods := newPods(ns, "p", nodes*each, "10m", selecting(lab, ns), withClaim(""))
	for _, p := range pods {
		s.claim(ns, p.Name, "local", corev1.ReadWriteOnce)
	}
	s.create(pods...)
	s.claimsSuit(s.bound(ns, nodes*each, placedWithin))
}

func madeVolumes(s *stack, ns string) {
	const n = 20
	s.diskNodes(ns, 4)
	s.class("made", diskProvisioner, storagev1.VolumeBindingWaitForFirstConsumer, nil)
	pods := newPods(ns, "p", n, "10m", selecting(lab, ns), withClaim(""))
	for _, p := range pods {
		s.claim(ns, p.Name, "made", corev1.ReadWriteOnce)
	}
	s.create(pods...)
	s.claimsSuit(s.bound(ns, n, placedWithin))
}

// The provisioner gives the claim back, and the reservation is released.
func failedVolumes(s *stack, ns string) {
	s.diskNodes(ns, 2)
	s.class("unmade", diskProvisioner, storagev1.VolumeBindingWaitForFirstConsumer, map[string]string{"fail": "yes"})
	s.claim(ns, "c", "unmade", corev1.ReadWriteOnce)
	s.create(newPods(ns, "p", 1, "10m", selecting(lab, ns), withClaim("c"))...)
	s.eventually(placedWithin, "the pod's place is given up", func(ctx context.Context) (string, error) {
		pod, err := s.client.CoreV1().Pods(ns).Get(ctx, "p-0000", metav1.GetOptions{})
		if err != nil || pod.Spec.NodeName != "" {
			return "", fmt.Errorf("pod on node %q: %w", pod.Spec.NodeName, err)
		}
		if pod.Annotations["berth.dev/fence"] == "" {
			return "it has not been fenced", nil
		}
		return "", nil
	})
	s.must(s.client.CoreV1().Pods(ns).Delete(s.Context(), "p-0000", metav1.DeleteOptions{}))
}

// Twenty pods want one claim that is for one pod; four shards decide. The pod that has it is removed, again and
// again, the last time for a more important pod.
func claimForOne(s *stack, ns string) {
	s.diskNodes(ns, 8)
	s.class("now", diskProvisioner, storagev1.VolumeBindingImmediate, nil)
	s.claim(ns, "one", "now", corev1.ReadWriteOncePod)
	s.eventually(placedWithin, "the claim has a volume", func(ctx context.Context) (string, error) {
		claim, err := s.client.CoreV1().PersistentVolumeClaims(ns).Get(ctx, "one", metav1.GetOptions{})
		if err == nil && claim.Status.Phase != corev1.ClaimBound {
			return string(claim.Status.Phase), nil
		}
		return "", err
	})
	const n, rounds = 20, 6
	s.create(newPods(ns, "p", n, "10m", selecting(lab, ns), withClaim("one"))...)
	for range rounds {
		pods := s.bound(ns, 1, placedWithin)
		if len(pods) != 1 {
			s.Fatalf("%d pods have the claim that is for one", len(pods))
		}
		var now int64
		s.must(s.client.CoreV1().Pods(ns).Delete(s.Context(), pods[0].Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
		s.eventually(placedWithin, "the pod is gone", func(ctx context.Context) (string, error) {
			for _, p := range s.pods(ns) {
				if p.UID == pods[0].UID {
					return "it is there", nil
				}
			}
			return "", nil
		})
	}
	s.bound(ns, 1, placedWithin)
	s.priorityClass("claims-high", 1000)
	s.create(newPod(ns, "urgent", "10m", selecting(lab, ns), withClaim("one"), ofPriority("claims-high")))
	node := s.nodeOf(ns, "urgent")
	if left := s.left(ns, "p"); left != n-rounds-1 {
		s.Errorf("%d pods are left when the important one is on %s, want that with the claim to have gone", left, node)
	}
}

func lateClaim(s *stack, ns string) {
	s.diskNodes(ns, 1)
	s.create(newPods(ns, "p", 1, "10m", selecting(lab, ns), withClaim("later"))...)
	s.eventually(placedWithin, "the pod says what it lacks", func(ctx context.Context) (string, error) {
		pod, err := s.client.CoreV1().Pods(ns).Get(ctx, "p-0000", metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if got := conditionOf(pod).Message; !strings.Contains(got, `persistentvolumeclaim "later" not found`) {
			return got, nil
		}
		return "", nil
	})
	s.claim(ns, "later", "made", corev1.ReadWriteOnce)
	s.claimsSuit(s.bound(ns, 1, placedWithin))
}

func ephemeralVolume(s *stack, ns string) {
	s.diskNodes(ns, 2)
	s.create(newPods(ns, "p", 4, "10m", selecting(lab, ns), func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{
			Ephemeral: &corev1.EphemeralVolumeSource{
				VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claimSpec("made", corev1.ReadWriteOnce)},
			},
		}}}
	})...)
	s.claimsSuit(s.bound(ns, 4, placedWithin))
}
