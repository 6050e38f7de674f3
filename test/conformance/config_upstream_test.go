package conformance

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	configv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"sigs.k8s.io/yaml"

	berthconfig "github.com/berth-scheduler/berth/pkg/placement/config"
)

// mistake is the part of a mistake that both sides report: its field and its kind.
type mistake struct {
	Field string
	Kind  field.ErrorType
}

// finding is a mistake with upstream's message, which identifies the broken rule.
type finding struct {
	mistake
	message string
}

// verdict is upstream's verdict on a file.
type verdict struct {
	file fileView
	// undecodable: the file is refused before its values are looked at.
	undecodable error
	// findings are those of ValidateKubeSchedulerConfiguration, then those that upstream
	// comes upon one at a time when it builds the frameworks.
	findings []finding
	// internal is the defaulted configuration, frameworks what its profiles become.
	internal   *config.KubeSchedulerConfiguration
	frameworks []framework.Framework
	// startErr is why the scheduler would not start, nil if it would.
	startErr error
}

// upstreamLoader does what kube-scheduler does with a file until it would run.
type upstreamLoader struct {
	options []frameworkruntime.Option
}

// quietUpstream registers upstream's metrics and silences its log, which reports every plugin that a file names.
func quietUpstream(t *testing.T) {
	t.Helper()
	metrics.Register()
	logging := klog.CaptureState()
	t.Cleanup(logging.Restore)
	klog.SetLogger(klog.Logger{})
}

// newUpstreamLoader returns a loader for some hundred files: plugins leave something behind
// in the informers with every framework.
func newUpstreamLoader() *upstreamLoader {
	client := fake.NewClientset()
	return &upstreamLoader{options: []frameworkruntime.Option{
		frameworkruntime.WithLogger(klog.Logger{}),
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(client, 0)),
		frameworkruntime.WithSnapshotSharedLister(cache.NewEmptySnapshot()),
	}}
}

// load follows cmd/kube-scheduler/app/options loadConfig, ApplyTo and scheduler.New.
// Frameworks end with ctx.
func (l *upstreamLoader) load(ctx context.Context, data []byte) verdict {
	obj, gvk, err := scheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return verdict{undecodable: err, startErr: err}
	}
	c, ok := obj.(*config.KubeSchedulerConfiguration)
	if !ok {
		err := fmt.Errorf("decoded as %s", gvk)
		return verdict{undecodable: err, startErr: err}
	}
	c.APIVersion = gvk.GroupVersion().String()
	v := verdict{internal: c, file: readFile(data)}
	if refused := validation.ValidateKubeSchedulerConfiguration(c); refused != nil {
		v.startErr = refused
		for _, err := range refused.Errors() {
			v.findings = append(v.findings, findingOf(err, nil))
		}
	}
	for i := range c.Profiles {
		path := field.NewPath("profiles").Index(i)
		v.findings = append(v.findings, fitFindings(&c.Profiles[i], path)...)
		v.findings = append(v.findings, l.findAll(ctx, v.file.pluginsOf(i), &c.Profiles[i], path)...)
		if v.startErr != nil {
			continue
		}
		f, err := l.framework(ctx, &c.Profiles[i])
		if err != nil {
			v.startErr = err
			continue
		}
		v.frameworks = append(v.frameworks, f)
	}
	return v
}

func (l *upstreamLoader) framework(
	ctx context.Context, p *config.KubeSchedulerProfile,
) (framework.Framework, error) {
	return frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), p, l.options...)
}

func findingOf(err error, under *field.Path) finding {
	var e *field.Error
	if !errors.As(err, &e) {
		return finding{mistake{under.String(), field.ErrorTypeInternal}, err.Error()}
	}
	return finding{mistake{e.Field, e.Type}, e.ErrorBody()}
}

// fitFindings validates the arguments of NodeResourcesFit. ValidateKubeSchedulerConfiguration
// means to, but looks for a plugin called NodeResourcesFitArgs; the plugin's constructor
// does it without the path.
func fitFindings(p *config.KubeSchedulerProfile, path *field.Path) []finding {
	if !enabledAnywhere(p.Plugins, "NodeResourcesFit") {
		return nil
	}
	var all []finding
	for i, c := range p.PluginConfig {
		args, ok := c.Args.(*config.NodeResourcesFitArgs)
		if !ok || c.Name != "NodeResourcesFit" {
			continue
		}
		at := path.Child("pluginConfig").Index(i).Child("args")
		err := validation.ValidateNodeResourcesFitArgs(at, args)
		if err == nil {
			continue
		}
		for _, e := range flatten(err) {
			all = append(all, findingOf(e, at))
		}
	}
	return all
}

func flatten(err error) []error {
	var aggregate utilerrors.Aggregate
	if errors.As(err, &aggregate) {
		return utilerrors.Flatten(aggregate).Errors()
	}
	return []error{err}
}

// fileView is a file as it was written, without defaults.
type fileView struct {
	schedulerv1.KubeSchedulerConfiguration
}

func readFile(data []byte) fileView {
	var f fileView
	if err := yaml.Unmarshal(data, &f.KubeSchedulerConfiguration); err != nil {
		return fileView{}
	}
	return f
}

// pluginsOf is nil for a profile without, which may be one that upstream has added.
func (f *fileView) pluginsOf(profile int) *schedulerv1.Plugins {
	if profile >= len(f.Profiles) {
		return nil
	}
	return f.Profiles[profile].Plugins
}

func fileSets(p *schedulerv1.Plugins) map[berthconfig.Point]*schedulerv1.PluginSet {
	return map[berthconfig.Point]*schedulerv1.PluginSet{
		berthconfig.PreEnqueue: &p.PreEnqueue, berthconfig.QueueSort: &p.QueueSort,
		berthconfig.PreFilter: &p.PreFilter, berthconfig.Filter: &p.Filter, berthconfig.PostFilter: &p.PostFilter,
		berthconfig.PreScore: &p.PreScore, berthconfig.Score: &p.Score, berthconfig.Reserve: &p.Reserve,
		berthconfig.Permit: &p.Permit, berthconfig.PreBind: &p.PreBind, berthconfig.Bind: &p.Bind,
		berthconfig.PostBind: &p.PostBind, "placementGenerate": &p.PlacementGenerate,
		"placementScore": &p.PlacementScore, "multiPoint": &p.MultiPoint,
	}
}

// pluginSets are the lists of a profile by the names they have in a file.
func pluginSets(p *config.Plugins) map[berthconfig.Point]*config.PluginSet {
	return map[berthconfig.Point]*config.PluginSet{
		berthconfig.PreEnqueue: &p.PreEnqueue, berthconfig.QueueSort: &p.QueueSort,
		berthconfig.PreFilter: &p.PreFilter, berthconfig.Filter: &p.Filter, berthconfig.PostFilter: &p.PostFilter,
		berthconfig.PreScore: &p.PreScore, berthconfig.Score: &p.Score, berthconfig.Reserve: &p.Reserve,
		berthconfig.Permit: &p.Permit, berthconfig.PreBind: &p.PreBind, berthconfig.Bind: &p.Bind,
		berthconfig.PostBind: &p.PostBind, "placementGenerate": &p.PlacementGenerate,
		"placementScore": &p.PlacementScore, "multiPoint": &p.MultiPoint,
	}
}

func enabledAnywhere(p *config.Plugins, name string) bool {
	for _, set := range pluginSets(p) {
		if slices.ContainsFunc(set.Enabled, func(e config.Plugin) bool { return e.Name == name }) {
			return true
		}
	}
	return false
}

// findAll finds all mistakes about the plugins of a profile. Building a framework stops at the first mistake; findAll
// repairs it, which reveals the next. Arguments are the defaults: their mistakes are known already.
func (l *upstreamLoader) findAll(
	ctx context.Context, file *schedulerv1.Plugins, p *config.KubeSchedulerProfile, path *field.Path,
) []finding {
	p = p.DeepCopy()
	p.PluginConfig = defaultPluginConfig()
	fixer := fixer{plugins: p.Plugins, path: path.Child("plugins"), source: placesOf(file)}
	for {
		_, err := l.framework(ctx, p)
		if err == nil {
			return fixer.found
		}
		if !fixer.fix(err.Error()) {
			return append(fixer.found, finding{mistake{path.String(), field.ErrorTypeInternal}, err.Error()})
		}
	}
}

// defaultPluginConfig is upstream's own default for an empty file.
func defaultPluginConfig() []config.PluginConfig {
	var c config.KubeSchedulerConfiguration
	empty := []byte("apiVersion: " + configv1.SchemeGroupVersion.String() + "\nkind: KubeSchedulerConfiguration\n")
	if err := runtime.DecodeInto(scheme.Codecs.UniversalDecoder(), empty, &c); err != nil {
		return nil
	}
	return c.Profiles[0].PluginConfig
}

// fixer turns an error of NewFramework into a finding and makes it go away.
type fixer struct {
	plugins *config.Plugins
	path    *field.Path
	// source holds the positions of each name in the file's lists; see placesOf.
	source map[berthconfig.Point]map[string][]int
	found  []finding
}

var (
	absent     = regexp.MustCompile(`^(\w+)Plugin "(.*)" does not exist$`)
	misplaced  = regexp.MustCompile(`^plugin "(.*)" does not extend (\w+)Plugin plugin$`)
	registered = regexp.MustCompile(`^plugin "(.*)" already registered as "(\w+)Plugin"$`)
	sorters    = regexp.MustCompile(`^only one queue sort plugin required`)
	binders    = regexp.MustCompile(`^at least one bind plugin is needed`)
	overflows  = regexp.MustCompile(`^(placement )?score plugins: total score of Score plugins could overflow$`)
)

// placesOf are the positions of every name in every list of the file. Upstream's own lists do not show them: in
// multiPoint, defaults are mixed with the file's plugins.
func placesOf(file *schedulerv1.Plugins) map[berthconfig.Point]map[string][]int {
	all := map[berthconfig.Point]map[string][]int{}
	if file == nil {
		return all
	}
	for at, set := range fileSets(file) {
		all[at] = map[string][]int{}
		for i, e := range set.Enabled {
			all[at][e.Name] = append(all[at][e.Name], i)
		}
	}
	return all
}

func (m *fixer) fix(message string) bool {
	if g := absent.FindStringSubmatch(message); g != nil {
		at, kind := lowerFirst(g[1]), field.ErrorTypeNotSupported
		if !m.has(at, g[2]) {
			at = "multiPoint"
		}
		if removedPlugins.Has(g[2]) {
			kind = field.ErrorTypeInvalid
		}
		return m.drop(at, g[2], 0, kind, message)
	}
	if g := misplaced.FindStringSubmatch(message); g != nil {
		return m.drop(lowerFirst(g[2]), g[1], 0, field.ErrorTypeInvalid, message)
	}
	if g := registered.FindStringSubmatch(message); g != nil {
		at := lowerFirst(g[2])
		if len(m.source[at][g[1]]) < 2 {
			at = "multiPoint"
		}
		return m.drop(at, g[1], 1, field.ErrorTypeDuplicate, message)
	}
	switch {
	case sorters.MatchString(message):
		m.plugins.QueueSort = config.PluginSet{
			Enabled: []config.Plugin{{Name: "PrioritySort"}}, Disabled: []config.Plugin{{Name: "*"}},
		}
		m.add(m.path.Child("queueSort"), field.ErrorTypeRequired, message)
	case binders.MatchString(message):
		m.plugins.Bind = config.PluginSet{
			Enabled: []config.Plugin{{Name: "DefaultBinder"}}, Disabled: []config.Plugin{{Name: "*"}},
		}
		m.add(m.path.Child("bind"), field.ErrorTypeRequired, message)
	case overflows.MatchString(message):
		return m.raise(message)
	default:
		return false
	}
	return true
}

// raise makes a negative weight positive: adding weights up, upstream has the remainder
// overflow once the sum is negative, and blames that. No file has weights enough for more.
func (m *fixer) raise(message string) bool {
	for _, at := range []berthconfig.Point{"score", "placementScore", "multiPoint"} {
		set := pluginSets(m.plugins)[at]
		i := slices.IndexFunc(set.Enabled, func(e config.Plugin) bool { return e.Weight < 0 })
		if i < 0 || !m.has(at, set.Enabled[i].Name) {
			continue
		}
		set.Enabled[i].Weight = 1
		m.add(m.path.Child(string(at), "enabled").Index(m.source[at][set.Enabled[i].Name][0]).Child("weight"),
			field.ErrorTypeInvalid, message)
		return true
	}
	return false
}

func lowerFirst(s string) berthconfig.Point {
	return berthconfig.Point(strings.ToLower(s[:1]) + s[1:])
}

func (m *fixer) has(at berthconfig.Point, name string) bool { return len(m.source[at][name]) > 0 }

// drop removes the nth occurrence of a name in a list.
func (m *fixer) drop(at berthconfig.Point, name string, nth int, kind field.ErrorType, message string) bool {
	set, where := pluginSets(m.plugins)[at], m.source[at][name]
	if set == nil || nth >= len(where) {
		return false
	}
	seen := -1
	set.Enabled = slices.DeleteFunc(slices.Clone(set.Enabled), func(e config.Plugin) bool {
		if e.Name == name {
			seen++
		}
		return e.Name == name && seen == nth
	})
	m.source[at][name] = slices.Delete(slices.Clone(where), nth, nth+1)
	m.add(m.path.Child(string(at), "enabled").Index(where[nth]), kind, message)
	return true
}

func (m *fixer) add(path *field.Path, kind field.ErrorType, message string) {
	m.found = append(m.found, finding{mistake{path.String(), kind}, message})
}

// removedPlugins are refused by name in version v1.
var removedPlugins = sets.New("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")
