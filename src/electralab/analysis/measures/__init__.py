"""One file for each family of claims: (Specimen, Material, AnalysisSettings) -> findings, or what is missing."""
