package placementbench

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The shape of the cluster.
const (
	// zoneCount is the number of zones, and poolCount the number of node pools. Zones alternate with the number
	// of the node; its pool follows from a hash of the number.
	zoneCount = 3
	poolCount = 4
	// appImages is how many app images a node has in addition to the system's.
	appImages = 10

	labelApp       = "app.kubernetes.io/name"
	labelPool      = "example.com/pool"
	labelDisk      = "example.com/disk"
	taintDedicated = "example.com/dedicated"
	taintSpot      = "example.com/spot"
)

// boundSeries and pendingSeries keep the names of bound and pending pods apart, which have the same numbers.
const (
	boundSeries   = "b"
	pendingSeries = "p"
)

// created returns the creation time of an object: within a month, at a whole second as the API server writes it.
func created(namespace, name string) metav1.Time {
	const month = 30 * 24 * 60 * 60
	begin := time.Date(2026, time.March, 2, 8, 0, 0, 0, time.UTC)
	return metav1.NewTime(begin.Add(time.Duration(hash(namespace, name)%month) * time.Second))
}

// after returns a time some seconds later.
func after(t metav1.Time, seconds int) metav1.Time {
	return metav1.NewTime(t.Add(time.Duration(seconds) * time.Second))
}

// zoneOf and the functions below it return the zone and the names of a node by its index.
func zoneOf(node int) int          { return node % zoneCount }
func zoneName(zone int) string     { return "eu-west-1" + string(rune('a'+zone)) }
func poolName(pool int) string     { return fmt.Sprintf("pool-%d", pool) }
func nodeName(node int) string     { return fmt.Sprintf("node-%06d.example.com", node) }
func instanceType(pool int) string { return fmt.Sprintf("m%d.8xlarge", 5+pool) }

// meta returns the metadata of an object. All of it follows from namespace and name.
func meta(namespace, name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: uid(namespace, name), Labels: labels,
		CreationTimestamp: created(namespace, name),
		ResourceVersion:   strconv.FormatUint(hash(namespace, name)>>24, 10),
	}
}

// Node returns the node with this number: 32 processors, 256 GiB, 110 pods.
func (w Workload) Node(i int) *corev1.Node {
	pool := mix(uint64(i)) % poolCount
	name := nodeName(i)
	n := &corev1.Node{
		ObjectMeta: meta("", name, map[string]string{
			corev1.LabelHostname:           name,
			corev1.LabelTopologyZone:       zoneName(zoneOf(i)),
			corev1.LabelTopologyRegion:     "eu-west-1",
			corev1.LabelInstanceTypeStable: instanceType(int(pool)),
			corev1.LabelArchStable:         "amd64",
			corev1.LabelOSStable:           "linux",
			labelPool:                      poolName(int(pool)),
			labelDisk:                      []string{"ssd", "hdd"}[mix(uint64(i))>>16%2],
		}),
		Spec: corev1.NodeSpec{
			ProviderID: "aws:///" + zoneName(zoneOf(i)) + "/i-" + fmt.Sprintf("%017x", mix(uint64(i))),
			PodCIDR:    address(100, i<<8) + "/24", PodCIDRs: []string{address(100, i<<8) + "/24"},
		},
		Status: corev1.NodeStatus{
			Capacity: nodeResources(), Allocatable: nodeResources(),
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: address(10, i)}, {Type: corev1.NodeHostName, Address: name},
			},
			Conditions: nodeConditions(created("", name)),
			Images:     w.images(i),
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion: "v1.36.3", OperatingSystem: "linux", Architecture: "amd64",
				ContainerRuntimeVersion: "containerd://2.1.0", KernelVersion: "6.12.0", OSImage: "Linux",
				MachineID: string(uid(name, "machine")), SystemUUID: string(uid(name, "system")), BootID: string(uid(name, "boot")),
			},
		},
	}
	if w.tainted {
		taint(n, i)
	}
	return n
}

// taint dedicates a tenth of the nodes, gives a tenth a PreferNoSchedule taint and cordons one in fifty.
func taint(n *corev1.Node, i int) {
	switch i % 50 {
	case 3, 13, 23, 33, 43:
		n.Spec.Taints = []corev1.Taint{{Key: taintDedicated, Value: "batch", Effect: corev1.TaintEffectNoSchedule}}
	case 7, 17, 27, 37, 47:
		n.Spec.Taints = []corev1.Taint{{Key: taintSpot, Value: "true", Effect: corev1.TaintEffectPreferNoSchedule}}
	case 49:
		cordon(n, true)
	}
}

// cordon sets or clears what `kubectl cordon` and the node controller set.
func cordon(n *corev1.Node, on bool) {
	n.Spec.Unschedulable = on
	kept := n.Spec.Taints[:0:0]
	for _, t := range n.Spec.Taints {
		if t.Key != corev1.TaintNodeUnschedulable {
			kept = append(kept, t)
		}
	}
	if on {
		kept = append(kept, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	n.Spec.Taints = kept
}

// nodeResources returns the capacity of a node, all of which is allocatable.
func nodeResources() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(32, resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(256<<30, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(200<<30, resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(110, resource.DecimalSI),
	}
}

// nodeConditions returns the conditions that a healthy kubelet reports, with their times.
func nodeConditions(since metav1.Time) []corev1.NodeCondition {
	condition := func(
		t corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string,
	) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: t, Status: status, Reason: reason, Message: message,
			LastHeartbeatTime: after(since, 1<<22), LastTransitionTime: after(since, 20),
		}
	}
	return []corev1.NodeCondition{
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse,
			"KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse,
			"KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse,
			"KubeletHasSufficientPID", "kubelet has sufficient PID available"),
		condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"),
	}
}

// images returns some of the system's images, which every node has, and those of the first apps on this node.
func (w Workload) images(node int) []corev1.ContainerImage {
	var list []corev1.ContainerImage
	add := func(name string, size int64) {
		repository := name[:len(name)-len(":v1.4.2")]
		list = append(list, corev1.ContainerImage{
			Names: []string{repository + "@sha256:" + digest(name), name}, SizeBytes: size,
		})
	}
	for _, name := range []string{"pause", "node-agent", "dns-cache", "csi-driver", "log-agent"} {
		add("registry.example.com/system/"+name+":v1.4.2", 10<<20+int64(len(name))<<22)
	}
	seen := map[int]bool{}
	for j := range min(w.PodsPerNode, appImages) {
		if a := w.appOn(node, j); !seen[a.index] {
			seen[a.index] = true
			add(a.image, imageSize(a.index))
		}
	}
	return list
}

// imageSize returns 80 MiB to 700 MiB, in bytes.
func imageSize(app int) int64 { return 80<<20 + int64(mix(uint64(app))>>20%32)*(20<<20) }

// digest returns 64 hexadecimal digits that follow from a name.
func digest(name string) string {
	h := hash(name)
	return fmt.Sprintf("%016x%016x%016x%016x", h, mix(h), mix(h+1), mix(h+2))
}

// pod returns the i-th pod of an app in a series, pending, as the API server returns it after admission. Requests
// are unique over both series of a workload whose shapes are.
func (w Workload) pod(a *app, series string, i int) *corev1.Pod {
	name := fmt.Sprintf("%s-%s%05x", a.replicaSetName(), series, i)
	changed := -1
	if w.unique {
		changed = i
		if series == boundSeries {
			changed += w.Decisions
		}
	}
	p := &corev1.Pod{
		ObjectMeta: meta(a.namespace, name, a.labels()),
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{a.container("main", a.image, a.requests(changed))},
			Volumes:                       []corev1.Volume{tokenVolume()},
			RestartPolicy:                 corev1.RestartPolicyAlways,
			TerminationGracePeriodSeconds: new(int64(30)),
			DNSPolicy:                     corev1.DNSClusterFirst,
			ServiceAccountName:            "default", DeprecatedServiceAccount: "default",
			SecurityContext:    &corev1.PodSecurityContext{},
			SchedulerName:      corev1.DefaultSchedulerName,
			Tolerations:        append(defaultTolerations(), a.tolerations...),
			Priority:           new(int32),
			PreemptionPolicy:   new(corev1.PreemptLowerPriority),
			EnableServiceLinks: new(true),
			Affinity:           a.affinity.DeepCopy(),
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable},
	}
	for i := range a.spread {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, *a.spread[i].DeepCopy())
	}
	if a.sidecar {
		proxy := corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(10, resource.DecimalSI)}
		p.Spec.Containers = append(p.Spec.Containers,
			a.container("proxy", "registry.example.com/system/proxy:v1.4.2", proxy))
	}
	if a.replicaSet {
		p.GenerateName = a.replicaSetName() + "-"
		p.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: a.replicaSetName(),
			UID: uid(a.namespace, a.replicaSetName()), Controller: new(true), BlockOwnerDeletion: new(true),
		}}
	}
	return p
}

// container returns a container with the fields that users and API server defaults set.
func (a *app) container(name, image string, requests corev1.ResourceList) corev1.Container {
	return corev1.Container{
		Name: name, Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
		Args:  []string{"--listen=:8080", "--name=" + a.name},
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
		Env: []corev1.EnvVar{
			{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"},
			}},
			{Name: "REGION", Value: "eu-west-1"},
		},
		Resources: corev1.ResourceRequirements{Requests: requests},
		VolumeMounts: []corev1.VolumeMount{{
			Name: tokenVolumeName, ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount",
		}},
		ReadinessProbe: &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
				Path: "/readyz", Port: intstr.FromString("http"), Scheme: corev1.URISchemeHTTP,
			}},
			TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
		},
		TerminationMessagePath:   corev1.TerminationMessagePathDefault,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}
}

// tokenVolumeName is the name of the token volume. Admission gives it a random suffix; here it is the same for
// all pods, which makes no difference, because signatures leave it out.
const tokenVolumeName = "kube-api-access-x7k2p"

// tokenVolume returns the volume that the ServiceAccount admission plugin adds.
func tokenVolume() corev1.Volume {
	return corev1.Volume{Name: tokenVolumeName, VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{
			DefaultMode: new(int32(420)),
			Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
					ExpirationSeconds: new(int64(3607)), Path: "token",
				}},
				{ConfigMap: &corev1.ConfigMapProjection{
					LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
					Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
				}},
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
					Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
				}}}},
			},
		},
	}}
}

// defaultTolerations returns the tolerations that the DefaultTolerationSeconds admission plugin adds.
func defaultTolerations() []corev1.Toleration {
	tolerate := func(key string) corev1.Toleration {
		return corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: new(int64(300)),
		}
	}
	return []corev1.Toleration{tolerate(corev1.TaintNodeNotReady), tolerate(corev1.TaintNodeUnreachable)}
}

// run gives a pod the status that a kubelet would report: running, ready, with addresses and the resources
// allocated to its containers.
func run(p *corev1.Pod, node int) {
	h := int(hash(p.Name) >> 40)
	scheduled := after(p.CreationTimestamp, 1)
	ready := after(scheduled, 3+h%60)
	podIP := address(100, node<<8+h%250)
	p.Spec.NodeName = nodeName(node)
	p.Annotations = map[string]string{"cni.example.com/podIP": podIP + "/32"}
	p.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable, StartTime: &scheduled,
		HostIP: address(10, node), HostIPs: []corev1.HostIP{{IP: address(10, node)}},
		PodIP: podIP, PodIPs: []corev1.PodIP{{IP: podIP}},
	}
	condition := func(t corev1.PodConditionType, at metav1.Time) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: t, Status: corev1.ConditionTrue, LastTransitionTime: at,
		})
	}
	condition(corev1.PodReadyToStartContainers, after(scheduled, 2))
	condition(corev1.PodInitialized, scheduled)
	condition(corev1.PodReady, ready)
	condition(corev1.ContainersReady, ready)
	condition(corev1.PodScheduled, scheduled)
	for i, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: "sha256:" + digest(c.Image), ContainerID: "containerd://" + digest(p.Name),
			Ready: true, Started: new(true), RestartCount: int32(h % 7 / 5),
			State:              corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: after(ready, -i-2)}},
			Resources:          &corev1.ResourceRequirements{Requests: c.Resources.Requests.DeepCopy()},
			AllocatedResources: c.Resources.Requests.DeepCopy(),
		})
	}
}
