{{- define "evenkeel.name" -}}
{{- if contains "evenkeel" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-evenkeel" (.Release.Name | trunc 31 | trimSuffix "-") }}{{ end }}
{{- end }}

{{- define "evenkeel.operator" -}}{{ include "evenkeel.name" . }}-operator{{- end }}
{{- define "evenkeel.nodeCache" -}}{{ include "evenkeel.name" . }}-node-cache{{- end }}
{{- define "evenkeel.uninstall" -}}{{ include "evenkeel.name" . }}-uninstall{{- end }}

{{- define "evenkeel.nodeCacheNamespace" -}}{{ .Values.nodeCache.namespace | default .Release.Namespace }}{{- end }}

{{- /* Labels that never change and so may select. Called with (list $ component). */}}
{{- define "evenkeel.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: evenkeel
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "evenkeel.labels" -}}
{{- $root := index . 0 -}}
{{ include "evenkeel.selector" . }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/part-of: evenkeel
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end }}

{{- /* Called with (list $ "control"). */}}
{{- define "evenkeel.image" -}}
{{- $root := index . 0 -}}
{{- $image := index $root.Values.image (index . 1) -}}
{{- if $image.digest }}{{ printf "%s@%s" $image.repository $image.digest }}{{ else }}{{ printf "%s:%s" $image.repository ($image.tag | default $root.Chart.AppVersion) }}{{ end }}
{{- end }}

{{- define "evenkeel.restrictedPod" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "evenkeel.restrictedContainer" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "evenkeel.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Runs before `helm uninstall`. A failed hook stays, so that its log says why. Called with the weight. */}}
{{- define "evenkeel.hook" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
