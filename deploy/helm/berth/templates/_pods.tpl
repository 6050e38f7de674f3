{{/* Values of pods: `pods` has the defaults, and a component has its own under its own name. The argument of the
     templates below is the dict of a component (root, component, values), or a list that begins with one. */}}

{{/* Names that the chart uses in pods itself: a value with one of them is a mistake. Arguments: component. */}}
{{- define "berth.taken" -}}
commonLabels: [app.kubernetes.io/name, app.kubernetes.io/component, app.kubernetes.io/part-of]
podLabels: [app.kubernetes.io/name, app.kubernetes.io/component, app.kubernetes.io/part-of]
podAnnotations: [berth.dev/configuration]
{{- if has .component (list "etcd" "nats") }}
extraEnv: [POD_NAME]
{{- else if eq .component "etcd-defragment" }}
extraEnv: [ETCDCTL_ENDPOINTS, ETCDCTL_CACERT, ETCDCTL_CERT, ETCDCTL_KEY]
{{- else }}
extraEnv: [GOMEMLIMIT]
{{- end }}
extraVolumes: [config, tls, peer, data, stores, pid]
extraVolumeMounts:
- /etc/berth/config
- /etc/berth/tls
- /etc/berth/peer
- /etc/berth/stores
- /etc/nats
- /var/lib/berth
- /var/lib/etcd
- /var/lib/nats
- /var/run/nats
{{- end }}

{{/* Ends with an error if the chart uses the name itself. Arguments: field, name, component. */}}
{{- define "berth.refuseTaken" -}}
{{- $taken := include "berth.taken" . | fromYaml }}
{{- if has .name (index $taken .field | default list) }}
{{- fail (printf "%s: %s: set by the chart, want another name" .field .name) }}
{{- end }}
{{- end }}

{{/* The default's keys and the component's, whose values win. Arguments: the component, the field. */}}
{{- define "berth.map" -}}
{{- $field := index . 1 }}
{{- $component := (index . 0).component }}
{{- $all := dict }}
{{- range list (index (index . 0).root.Values.pods $field) (index (index . 0).values $field) }}
{{- range $key, $value := . }}
{{- include "berth.refuseTaken" (dict "field" $field "name" $key "component" $component) }}
{{- $_ := set $all $key $value }}
{{- end }}
{{- end }}
{{- with $all }}{{ toYaml . }}{{ end }}
{{- end }}

{{/* The component's value, or the default if that is empty. Arguments: the component, the field. */}}
{{- define "berth.either" -}}
{{- $field := index . 1 }}
{{- with index (index . 0).values $field | default (index (index . 0).root.Values.pods $field) }}{{ toYaml . }}{{ end }}
{{- end }}

{{/* The default's items, then the component's, which replace those of the same key. Arguments: the component, the
     field, and the key of an item. */}}
{{- define "berth.joined" -}}
{{- $field := index . 1 }}
{{- $key := index . 2 }}
{{- $component := (index . 0).component }}
{{- $own := index (index . 0).values $field | default list }}
{{- $names := list }}
{{- range $own }}
{{- $names = append $names (get . $key) }}
{{- end }}
{{- $all := list }}
{{- range index (index . 0).root.Values.pods $field }}
{{- if not (has (get . $key) $names) }}
{{- $all = append $all . }}
{{- end }}
{{- end }}
{{- range concat $all $own }}
{{- include "berth.refuseTaken" (dict "field" $field "name" (get . $key) "component" $component) }}
{{- end }}
{{- with concat $all $own }}{{ toYaml . }}{{ end }}
{{- end }}

{{- define "berth.extraEnv" -}}
{{- include "berth.joined" (list . "extraEnv" "name") }}
{{- end }}

{{- define "berth.extraVolumes" -}}
{{- include "berth.joined" (list . "extraVolumes" "name") }}
{{- end }}

{{- define "berth.extraVolumeMounts" -}}
{{- include "berth.joined" (list . "extraVolumeMounts" "mountPath") }}
{{- end }}

{{/* Labels and annotations of a pod. The pods are replaced when the argument configuration, a text, changes. */}}
{{- define "berth.podMetadata" -}}
{{- $labels := include "berth.labels" . | fromYaml }}
{{- range $key, $value := include "berth.map" (list . "podLabels") | fromYaml }}
{{- $_ := set $labels $key $value }}
{{- end }}
{{- $annotations := include "berth.map" (list . "podAnnotations") | fromYaml }}
{{- if and .configuration .root.Values.rollOnChange }}
{{- $_ := set $annotations "berth.dev/configuration" (.configuration | sha256sum | trunc 16) }}
{{- end }}
labels:
  {{- toYaml $labels | nindent 2 }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "berth.priorityClass" -}}
{{ .Values.priorityClass.name | default (printf "%s-control-plane" .Values.name) }}
{{- end }}

{{/* Pull secrets, scheduler, priority and placement of a pod. By default the pods of a component are spread over nodes
     and zones. The argument apart says how strictly over nodes, and alone that the component has one pod. */}}
{{- define "berth.placement" -}}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
schedulerName: {{ .root.Values.bootstrapSchedulerName }}
priorityClassName: {{ include "berth.priorityClass" .root }}
{{- with include "berth.map" (list . "nodeSelector") }}
nodeSelector:
  {{- . | nindent 2 }}
{{- end }}
{{- with include "berth.either" (list . "tolerations") }}
tolerations:
  {{- . | nindent 2 }}
{{- end }}
{{- with include "berth.either" (list . "affinity") }}
affinity:
  {{- . | nindent 2 }}
{{- end }}
{{- with include "berth.spread" . }}
topologySpreadConstraints:
  {{- . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "berth.spread" -}}
{{- $selector := dict "matchLabels" (include "berth.selector" . | fromYaml) }}
{{- $constraints := include "berth.either" (list . "topologySpreadConstraints") | fromYamlArray }}
{{- if not (or $constraints .alone) }}
{{- $constraints = list
  (dict "maxSkew" 1 "topologyKey" "kubernetes.io/hostname" "whenUnsatisfiable" (.apart | default "ScheduleAnyway"))
  (dict "maxSkew" 1 "topologyKey" "topology.kubernetes.io/zone" "whenUnsatisfiable" "ScheduleAnyway") }}
{{- end }}
{{- range $constraints }}
{{- if not (hasKey . "labelSelector") }}
{{- $_ := set . "labelSelector" $selector }}
{{- end }}
{{- end }}
{{- with $constraints }}{{ toYaml . }}{{ end }}
{{- end }}

{{- define "berth.serviceAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "berth.metadata" . | nindent 2 }}
  {{- with include "berth.map" (list . "serviceAccountAnnotations") }}
  annotations:
    {{- . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end }}
