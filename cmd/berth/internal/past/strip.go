package past

import (
	"fmt"
	"net/url"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/state"
)

// stripped removes from a record what a bundle must not hold. The queue strips facts too, but keeps whole pods and
// nodes when extenders or custom plugins are configured (strip.KeepSpec). A fact that cannot be decoded loses its
// object, because stripped cannot remove fields from it.
func (e *export) stripped(s eventlog.Stream, r eventlog.Record) eventlog.Record {
	if s != eventlog.Facts || len(r.Data) == 0 {
		return r
	}
	fact, err := events.DecodeFact(r)
	if err == nil {
		r.Data, err = state.StripFact(fact.Fact)
	}
	if err != nil {
		r.Data = nil
		e.unreadable++
	}
	return r
}

// stripConfig removes the credentials from a KubeSchedulerConfiguration: client keys of extenders, and passwords in
// their URLs. A file without any is returned unchanged, comments included. The meaning of the arguments of custom
// plugins is not known here; they stay.
func stripConfig(text []byte) ([]byte, error) {
	return edited(text, func(doc map[string]any) bool {
		changed := false
		for _, e := range list(doc["extenders"]) {
			if tls := object(e["tlsConfig"]); tls["keyData"] != nil {
				delete(tls, "keyData")
				delete(tls, "certData") // useless without its key, and refused
				changed = true
			}
			changed = stripPassword(e, "urlPrefix") || changed
		}
		return changed
	})
}

// stripPolicy does the same for a DeschedulerPolicy, which has only URLs: tokens are in secrets and files.
func stripPolicy(text []byte) ([]byte, error) {
	return edited(text, func(doc map[string]any) bool {
		changed := false
		for _, p := range list(doc["metricsProviders"]) {
			changed = stripPassword(object(p["prometheus"]), "url") || changed
		}
		return changed
	})
}

// edited returns a YAML document after edit, which reports whether it has changed anything. Comments are lost if it
// has.
func edited(text []byte, edit func(map[string]any) bool) ([]byte, error) {
	data, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, err
	}
	var doc map[string]any
	if err := utiljson.Unmarshal(data, &doc); err != nil { // keeps whole numbers whole
		return nil, err
	}
	if !edit(doc) {
		return text, nil
	}
	return yaml.Marshal(doc)
}

// stripPassword removes user and password from the URL in a field. It reports whether there were any.
func stripPassword(o map[string]any, key string) (changed bool) {
	address, err := url.Parse(fmt.Sprint(o[key]))
	if err != nil || address.User == nil {
		return false
	}
	address.User = nil
	o[key] = address.String()
	return true
}

// list returns the objects in a list, and nil for a value that is not a list.
func list(v any) (objects []map[string]any) {
	all, _ := v.([]any)
	for _, one := range all {
		if o := object(one); o != nil {
			objects = append(objects, o)
		}
	}
	return objects
}

// object returns a value as an object; nil if it is none. A nil map can be read like an empty one.
func object(v any) map[string]any {
	o, _ := v.(map[string]any)
	return o
}
