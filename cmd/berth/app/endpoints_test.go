package app

import (
	"testing"

	schedulerv1 "k8s.io/kube-scheduler/config/v1"
)

// /configz shows the effective configuration without private keys, and leaves the configuration itself alone.
func TestShownConfigurationHasNoKeys(t *testing.T) {
	c := &schedulerv1.KubeSchedulerConfiguration{Extenders: []schedulerv1.Extender{
		{URLPrefix: "http://plain"},
		{URLPrefix: "https://secure", TLSConfig: &schedulerv1.ExtenderTLSConfig{
			CertData: []byte("certificate"), KeyData: []byte("key"),
		}},
	}}
	shown := withoutKeys(c)
	if tls := shown.Extenders[1].TLSConfig; len(tls.KeyData) > 0 || string(tls.CertData) != "certificate" {
		t.Errorf("shown: %+v", tls)
	}
	if string(c.Extenders[1].TLSConfig.KeyData) != "key" {
		t.Error("the configuration itself has lost the key")
	}
}
