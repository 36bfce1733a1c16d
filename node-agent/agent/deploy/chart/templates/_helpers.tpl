{{- define "orlop.labels" -}}
app.kubernetes.io/name: orlop
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "orlop.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Volumes and mounts of the kubeconfig: ours, or the one of kube-proxy's ConfigMap. */}}
{{- define "orlop.kubeconfig.volume" -}}
- name: kubeconfig
  configMap:
    {{- if .Values.apiServer.host }}
    name: orlop-kubeconfig
    {{- else }}
    name: {{ .Values.kubeProxyConfigMap }}
    {{- end }}
{{- end }}

{{- define "orlop.kubeconfig.path" -}}
{{- if .Values.apiServer.host -}} /etc/orlop/kubeconfig/kubeconfig {{- else -}} /etc/orlop/kubeconfig/kubeconfig.conf {{- end -}}
{{- end }}
