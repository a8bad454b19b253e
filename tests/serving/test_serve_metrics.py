"""Counts in the words of Prometheus: names and labels are what dashboards know."""

from electralab.serving.metrics import ServerMetrics


def test_everything_that_happened_is_in_the_text() -> None:
    metrics = ServerMetrics()
    metrics.count_request("/v1/detect", 200, 0.004)
    metrics.count_request("/v1/detect", 200, 0.004)
    metrics.count_request("/v1/detect", 429, 0.0001)
    metrics.count_error("busy")
    metrics.count_batch("detect", 2)
    metrics.count_accept_error()
    metrics.add_gauge("electralab_queue_texts", "Texts that wait.", lambda: 3)
    lines = metrics.render().decode().splitlines()
    for line in (
        'electralab_requests_total{path="/v1/detect",status="200"} 2.0',
        'electralab_requests_total{path="/v1/detect",status="429"} 1.0',
        'electralab_request_seconds_bucket{le="0.0025",path="/v1/detect"} 1.0',
        'electralab_request_seconds_bucket{le="0.005",path="/v1/detect"} 3.0',
        'electralab_batch_texts_bucket{ability="detect",le="2.0"} 1.0',
        'electralab_refused_total{code="busy"} 1.0',
        "electralab_accept_errors_total 1.0",
        "# TYPE electralab_queue_texts gauge",
        "electralab_queue_texts 3.0",
    ):
        assert line in lines
    assert metrics.sum_statuses() == {"200": 2, "429": 1}
    names = {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}
    families = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in names} == families


def test_two_servers_of_a_process_count_for_themselves() -> None:
    first, second = ServerMetrics(), ServerMetrics()
    first.count_error("busy")
    assert "busy" not in second.render().decode()
