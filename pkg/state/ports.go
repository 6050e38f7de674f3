package state

import corev1 "k8s.io/api/core/v1"

// AnyIP is the host address that stands for all addresses of a node.
const AnyIP = "0.0.0.0"

// HostPort is one port of a node that a pod occupies, normalised: IP is AnyIP and Protocol TCP where the pod left
// them empty. It converts to and from ledger.HostPort. It is comparable; ports that are different may still
// conflict.
type HostPort struct {
	IP, Protocol string
	Port         int32
}

// NormalizeHostPort fills in the defaults.
func NormalizeHostPort(ip, protocol string, port int32) HostPort {
	if ip == "" {
		ip = AnyIP
	}
	if protocol == "" {
		protocol = string(corev1.ProtocolTCP)
	}
	return HostPort{IP: ip, Protocol: protocol, Port: port}
}

// Conflicts reports whether both cannot be on one node: they have the same port and protocol, and the same address
// or either of them AnyIP. Source: kube-scheduler/framework HostPortInfo.
func (p HostPort) Conflicts(o HostPort) bool {
	return p.Port == o.Port && p.Protocol == o.Protocol &&
		(p.IP == o.IP || p.IP == AnyIP || o.IP == AnyIP)
}

// HostPorts lists the ports of containers that run for the whole life of the pod, restartable init containers
// included (pkg/scheduler/util GetHostPorts).
func HostPorts(obj *corev1.Pod) []HostPort {
	var ports []HostPort
	collect := func(c *corev1.Container) {
		for _, p := range c.Ports {
			if p.HostPort > 0 {
				ports = append(ports, NormalizeHostPort(p.HostIP, string(p.Protocol), p.HostPort))
			}
		}
	}
	for i := range obj.Spec.InitContainers {
		c := &obj.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			collect(c)
		}
	}
	for i := range obj.Spec.Containers {
		collect(&obj.Spec.Containers[i])
	}
	return ports
}
