package draduel

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// account is the state of claims according to the API server.
type account struct {
	bound, waiting, allocated int
	// twice are devices that are in more than one claim, with the claims.
	twice []string
	// shared are claims for one pod that more than one has, with the pods.
	shared []string
	// without are bound pods whose claim has no device or does not name them.
	without []string
	// leaked are claims with a device of which no pod is left, or none ever was.
	leaked []string
}

func (a account) bad() bool { return len(a.twice)+len(a.shared)+len(a.without)+len(a.leaked) > 0 }

// count counts. Pods and claims are those of one namespace.
func count(pods []corev1.Pod, claims []resourcev1.ResourceClaim) account {
	var a account
	there, of := map[string]*corev1.Pod{}, map[string]*resourcev1.ResourceClaim{}
	users := map[string][]string{}
	for i := range pods {
		p := &pods[i]
		there[string(p.UID)] = p
		if p.Spec.NodeName == "" {
			a.waiting++
			continue
		}
		a.bound++
		if name := claimForOne(p); name != "" {
			users[name] = append(users[name], p.Name)
		}
	}
	owners := map[string][]string{}
	for i := range claims {
		c := &claims[i]
		of[c.Name] = c
		if c.Status.Allocation == nil {
			continue
		}
		a.allocated++
		for _, r := range c.Status.Allocation.Devices.Results {
			device := r.Driver + "/" + r.Pool + "/" + r.Device
			owners[device] = append(owners[device], c.Name)
		}
		if !slices.ContainsFunc(c.Status.ReservedFor, func(u resourcev1.ResourceClaimConsumerReference) bool {
			return there[string(u.UID)] != nil
		}) {
			a.leaked = append(a.leaked, c.Name)
		}
	}
	for i := range pods {
		if p := &pods[i]; p.Spec.NodeName != "" && len(p.Spec.ResourceClaims) > 0 && !served(p, of) {
			a.without = append(a.without, p.Name)
		}
	}
	a.twice, a.shared = shared(owners), shared(users)
	return a
}

// served reports whether a pod's claim has a device and names the pod.
func served(p *corev1.Pod, claims map[string]*resourcev1.ResourceClaim) bool {
	for _, s := range p.Status.ResourceClaimStatuses {
		if s.ResourceClaimName == nil {
			return false
		}
		c := claims[*s.ResourceClaimName]
		if c == nil || c.Status.Allocation == nil || !slices.ContainsFunc(c.Status.ReservedFor,
			func(u resourcev1.ResourceClaimConsumerReference) bool { return u.UID == p.UID }) {
			return false
		}
	}
	return len(p.Status.ResourceClaimStatuses) == len(p.Spec.ResourceClaims)
}

func claimForOne(p *corev1.Pod) string {
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			return v.PersistentVolumeClaim.ClaimName
		}
	}
	return ""
}

// shared are the keys with more than one owner, sorted.
func shared(owners map[string][]string) []string {
	var found []string
	for key, names := range owners {
		if len(names) > 1 {
			slices.Sort(names)
			found = append(found, key+": "+strings.Join(names, ", "))
		}
	}
	slices.Sort(found)
	return found
}

// result is the result of one play.
type result struct {
	// full is how things were when everything was bound that could be, after the time took.
	full account
	took time.Duration
	// left are the claims that still had devices when all pods were gone.
	left int
	// faults are the faults that the contender suffered.
	faults []string
}

func (r result) bad() bool { return r.full.bad() || r.left > 0 }

// examples bounds how many findings of a kind are printed.
const examples = 3

func (r result) text(name string) string {
	var b strings.Builder
	a := r.full
	fmt.Fprintf(&b, "%s: %d pods bound in %s, %d wait; %d claims with devices\n", name, a.bound,
		r.took.Round(time.Second), a.waiting, a.allocated)
	for _, f := range r.faults {
		fmt.Fprintf(&b, "  fault: %s\n", f)
	}
	for _, kind := range []struct {
		what  string
		found []string
	}{
		{"devices in two claims", a.twice}, {"claims for one pod that two have", a.shared},
		{"pods bound without their device", a.without}, {"claims with a device and no pod", a.leaked},
	} {
		fmt.Fprintf(&b, "  %s: %d\n", kind.what, len(kind.found))
		for _, one := range kind.found[:min(examples, len(kind.found))] {
			fmt.Fprintf(&b, "    %s\n", one)
		}
	}
	fmt.Fprintf(&b, "  claims that still have devices when all pods are gone: %d\n\n", r.left)
	return b.String()
}
