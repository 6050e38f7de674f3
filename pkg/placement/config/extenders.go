package config

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/strictyaml"
)

// checkExtenders applies upstream's rules to extenders (validateExtenders in
// pkg/scheduler/apis/config/validation), and one more: there must be an address to call. A resource may have one
// extender only, and one extender may bind.
func checkExtenders(extenders []schedulerv1.Extender, r *strictyaml.Report) {
	all := field.NewPath("extenders")
	binders, managed := 0, map[string]bool{}
	for i, e := range extenders {
		path := all.Index(i)
		if e.URLPrefix == "" {
			r.AddKind(field.ErrorTypeRequired, path.Child("urlPrefix"), nil, "want the address of the extender")
		}
		if e.PrioritizeVerb != "" && e.Weight <= 0 {
			r.Add(path.Child("weight"), e.Weight, "want 1 or more with a prioritizeVerb")
		}
		if e.BindVerb != "" {
			binders++
		}
		for j, m := range e.ManagedResources {
			at := path.Child("managedResources").Index(j).Child("name")
			checkExtended(m.Name, at, r)
			if managed[m.Name] {
				r.Add(at, m.Name, "managed twice; want each resource in one extender only")
			}
			managed[m.Name] = true
		}
	}
	if binders > 1 {
		r.Add(all, strictyaml.Words(fmt.Sprintf("%d with a bindVerb", binders)), "want at most one extender that binds")
	}
}

// checkExtended accepts the name of an extended resource. Source: validateExtendedResourceName.
func checkExtended(name string, path *field.Path, r *strictyaml.Report) {
	problems := validation.IsQualifiedName(name)
	for _, p := range problems {
		r.Add(path, name, "want a qualified name: "+p)
	}
	if len(problems) == 0 && !isExtended(name) {
		r.Add(path, name, "want the name of an extended resource, such as example.com/gpu")
	}
}

// isExtended reports whether the name does not belong to Kubernetes itself and quota can be set on it. Source:
// IsExtendedResourceName in pkg/apis/core/v1/helper.
func isExtended(name string) bool {
	native := !strings.Contains(name, "/") || strings.Contains(name, corev1.ResourceDefaultNamespacePrefix)
	return !native && !strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+name)) == 0
}

// leaveToExtenders makes NodeResourcesFit of every profile ignore the resources that only extenders handle. As
// upstream, this replaces the profile's own list of ignored resources.
func leaveToExtenders(extenders []schedulerv1.Extender, profiles []Profile) {
	var ignored []string
	for _, e := range extenders {
		for _, m := range e.ManagedResources {
			if m.IgnoredByScheduler {
				ignored = append(ignored, m.Name)
			}
		}
	}
	if len(ignored) == 0 {
		return
	}
	for _, p := range profiles {
		if args, ok := p.Args[names.NodeResourcesFit].(*schedulerv1.NodeResourcesFitArgs); ok {
			args.IgnoredResources = slices.Clone(ignored)
		}
	}
}
