"""Why a request gets no answer: a code for programs, a sentence for people, a status for HTTP."""

STATUS = {
    "bad_json": 400,
    "bad_value": 400,
    "bad_text": 400,
    "text_empty": 400,
    "text_too_long": 400,
    "too_many_texts": 400,
    "model_needed": 400,
    "model_cannot": 400,
    "wrong_key": 401,
    "foreign_host": 403,
    "foreign_origin": 403,
    "unknown_model": 404,
    "unknown_path": 404,
    "wrong_method": 405,
    "headers_too_slow": 408,
    "body_too_slow": 408,
    "body_too_large": 413,
    "wrong_media_type": 415,
    "busy": 429,
    "internal": 500,
    "stopping": 503,
    "too_slow": 503,
    "too_many_connections": 503,
}


class ApiError(Exception):
    """`retry_after` says in how many seconds it is worth trying again; 0 where it never is."""

    def __init__(self, code: str, message: str, retry_after: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retry_after = retry_after

    @property
    def status(self) -> int:
        return STATUS[self.code]


def shutting_down() -> ApiError:
    return ApiError("stopping", "the server is shutting down; ask another, or later", 60)
